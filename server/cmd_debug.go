package server

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"limitdb/resp"
	"limitdb/server/spec"
)

// debugCommands are commands that clients send to every Redis server and that mean little here:
// DEBUG, MODULE, FUNCTION, LOLWUT.
func debugCommands() []command {
	row := func(name string, arity int, f spec.Flags, group, summary string, run func(*call), args ...spec.Argument) command {
		return rows(group, "O(1)", 0)(name, arity, f, summary, run, args...)
	}
	container := func(name, group, summary string, subs ...command) command {
		c := row(name, -2, 0, group, summary, nil)
		c.Complexity, c.subs = "Depends on subcommand.", subs
		return c
	}
	none := func(c *call) { c.Array(0) }
	noModules := func(c *call) { c.Fail(errNoSuchModule) }
	path := spec.Text("path")
	mode := spec.Argument{Name: "flush-type", Kind: "oneof", Optional: true, Args: []spec.Argument{
		{Name: "async", Kind: "pure-token", Token: "ASYNC"},
		{Name: "sync", Kind: "pure-token", Token: "SYNC"},
	}}
	return []command{
		row("DEBUG", -2, spec.Client|spec.Admin|spec.Loading|spec.Stale, "server", "DEBUG SLEEP delays this connection's reply; other connections are served meanwhile. There is no other DEBUG.", (*call).debug,
			spec.Argument{Name: "sleep", Kind: "pure-token", Token: "SLEEP"}, spec.Argument{Name: "seconds", Kind: "double"}),
		container("MODULE", "server", "Container for commands about modules. There are none.",
			row("LIST", 2, spec.Admin, "server", "Returns an empty list: no modules are loaded.", none),
			row("LOAD", -3, spec.Admin, "server", "Returns an error: limitdb loads no modules.", noModules, path),
			row("LOADEX", -3, spec.Admin, "server", "Returns an error: limitdb loads no modules.", noModules, path),
			row("UNLOAD", 3, spec.Admin, "server", "Returns an error: limitdb loads no modules.", noModules, spec.Text("name")),
			row("HELP", 2, spec.Loading|spec.Stale, "server", "Lists the subcommands.", (*call).help),
		),
		container("FUNCTION", "scripting", "Container for commands about functions. There are none.",
			row("FLUSH", -2, spec.Write, "scripting", "Returns OK: there are no functions to delete.", (*call).functionFlush, mode),
			row("LIST", -2, 0, "scripting", "Returns an empty list: there are no functions.", (*call).functionList,
				spec.Argument{Name: "library-name-pattern", Kind: "string", Token: "LIBRARYNAME", Optional: true},
				spec.Argument{Name: "withcode", Kind: "pure-token", Token: "WITHCODE", Optional: true}),
			row("STATS", 2, 0, "scripting", "Returns that no function runs and that there is no engine to run one.", (*call).functionStats),
			row("HELP", 2, spec.Loading|spec.Stale, "scripting", "Lists the subcommands.", (*call).help),
		),
		row("LOLWUT", -1, spec.Readonly|spec.Fast, "server", "Draws a bucket and shows the version.", (*call).lolwut,
			spec.Argument{Name: "version", Kind: "integer", Token: "VERSION", Optional: true}),
	}
}

func (c *call) debug() {
	if who := c.srv.set.DebugCommand.Get(); who == "no" || who == "local" && !isLocal(c.client.conn.RemoteAddr()) {
		c.Fail(errDebugRefused)
		return
	}
	if !resp.EqualFold(c.Args[1], "SLEEP") {
		c.Fail(errNoDebug)
		return
	}
	if len(c.Args) != 3 {
		c.Fail("ERR wrong number of arguments for 'debug|sleep' command")
		return
	}
	seconds, err := strconv.ParseFloat(string(c.Args[2]), 64)
	if err != nil || !(seconds >= 0 && seconds <= 3600) { // NaN is neither
		c.Fail(errSleepRange)
		return
	}
	c.sleep(time.Duration(math.Round(seconds * float64(time.Second))))
}

// sleepStep bounds how long a timer keeps a closed session in memory.
const sleepStep = time.Second

// sleep parks the session for d and replies OK. Only a timer runs meanwhile, so all other
// sessions continue. The slow log records the sleep as if it were work.
func (c *call) sleep(d time.Duration) {
	cmd := c.cmd
	due, left := new(atomic.Bool), d
	arm := func() {
		step := min(left, sleepStep)
		left -= step
		conn := c.client.conn
		time.AfterFunc(step, func() {
			due.Store(true)
			conn.Wake()
		})
	}
	arm()
	c.client.park(func() bool {
		if !due.Swap(false) {
			return false
		}
		if left > 0 {
			arm()
			return false
		}
		seconds := strconv.AppendFloat(nil, d.Seconds(), 'f', -1, 64)
		c.client.logSlow(cmd, [][]byte{[]byte("DEBUG"), []byte("SLEEP"), seconds}, int64(d))
		c.OK()
		return true
	})
}

func (c *call) functionFlush() {
	if len(c.Args) > 3 || (len(c.Args) == 3 && !resp.EqualFold(c.Args[2], "ASYNC") && !resp.EqualFold(c.Args[2], "SYNC")) {
		c.Fail(errFunctionFlush)
		return
	}
	c.OK()
}

func (c *call) functionList() {
	for i := 2; i < len(c.Args); i++ {
		switch {
		case resp.EqualFold(c.Args[i], "WITHCODE"):
		case resp.EqualFold(c.Args[i], "LIBRARYNAME") && i+1 < len(c.Args):
			i++
		default:
			c.Fail("ERR Unknown argument " + resp.Excerpt(c.Args[i]))
			return
		}
	}
	c.Array(0)
}

func (c *call) functionStats() {
	c.Map(2)
	c.Text("running_script")
	c.Null()
	c.Text("engines")
	c.Map(0)
}

// The bucket that LOLWUT draws, in characters.
const (
	bucketRows  = 6
	bucketWidth = 24
)

// lolwut draws a bucket that leaks empty in the course of each minute. It accepts any
// arguments, as Redis does.
func (c *call) lolwut() {
	second := int(c.Now / int64(time.Second) % 60)
	surface := second * bucketRows / 60
	var b strings.Builder
	for row := range bucketRows {
		water := " "
		switch {
		case row == surface:
			water = "~"
		case row > surface:
			water = ":"
		}
		indent := strings.Repeat(" ", 4+row)
		b.WriteString(indent + `\` + strings.Repeat(water, bucketWidth-2*row) + "/\n")
	}
	floor := strings.Repeat("_", (bucketWidth-2*bucketRows-2)/2)
	b.WriteString(strings.Repeat(" ", 4+bucketRows) + `\` + floor + "  " + floor + "/\n")
	drop := strings.Repeat(" ", 4+bucketRows+1+len(floor)) + "'.\n"
	b.WriteString(drop + strings.Repeat("\n", second%2) + drop)
	b.WriteString("\nA leaky bucket, a minute deep. limitdb ver. " + c.srv.version + ", speaking as Redis ver. " + redisVersion + "\n")
	c.Verbatim(b.String())
}
