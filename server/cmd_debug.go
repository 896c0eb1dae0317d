package server

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// debugCommands are commands that clients send to every Redis server and that mean little here:
// DEBUG, MODULE, FUNCTION, LOLWUT.
func debugCommands() []command {
	row := func(name string, arity int, f flags, group, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f, group: group, since: "1.0.0",
			complexity: "O(1)", summary: summary, args: args, run: run,
		}
	}
	container := func(name, group, summary string, subs ...command) command {
		c := row(name, -2, 0, group, summary, nil)
		c.complexity, c.subs = "Depends on subcommand.", subs
		return c
	}
	none := func(c *call) { c.array(0) }
	noModules := func(c *call) { c.fail(errNoSuchModule) }
	path := argument{name: "path", kind: "string"}
	mode := argument{name: "flush-type", kind: "oneof", optional: true, args: []argument{
		{name: "async", kind: "pure-token", token: "ASYNC"},
		{name: "sync", kind: "pure-token", token: "SYNC"},
	}}
	return []command{
		row("DEBUG", -2, flagClient|flagAdmin|flagLoading|flagStale, "server", "DEBUG SLEEP delays this connection's reply; other connections are served meanwhile. There is no other DEBUG.", (*call).debug,
			argument{name: "sleep", kind: "pure-token", token: "SLEEP"}, argument{name: "seconds", kind: "double"}),
		container("MODULE", "server", "Container for commands about modules. There are none.",
			row("LIST", 2, flagAdmin, "server", "Returns an empty list: no modules are loaded.", none),
			row("LOAD", -3, flagAdmin, "server", "Returns an error: limitdb loads no modules.", noModules, path),
			row("LOADEX", -3, flagAdmin, "server", "Returns an error: limitdb loads no modules.", noModules, path),
			row("UNLOAD", 3, flagAdmin, "server", "Returns an error: limitdb loads no modules.", noModules, argument{name: "name", kind: "string"}),
			row("HELP", 2, flagLoading|flagStale, "server", "Lists the subcommands.", (*call).help),
		),
		container("FUNCTION", "scripting", "Container for commands about functions. There are none.",
			row("FLUSH", -2, flagWrite, "scripting", "Returns OK: there are no functions to delete.", (*call).functionFlush, mode),
			row("LIST", -2, 0, "scripting", "Returns an empty list: there are no functions.", (*call).functionList,
				argument{name: "library-name-pattern", kind: "string", token: "LIBRARYNAME", optional: true},
				argument{name: "withcode", kind: "pure-token", token: "WITHCODE", optional: true}),
			row("STATS", 2, 0, "scripting", "Returns that no function runs and that there is no engine to run one.", (*call).functionStats),
			row("HELP", 2, flagLoading|flagStale, "scripting", "Lists the subcommands.", (*call).help),
		),
		row("LOLWUT", -1, flagReadonly|flagFast, "server", "Draws a bucket and shows the version.", (*call).lolwut,
			argument{name: "version", kind: "integer", token: "VERSION", optional: true}),
	}
}

func (c *call) debug() {
	if who := c.srv.set.DebugCommand.Get(); who == "no" || who == "local" && !isLocal(c.client.conn.RemoteAddr()) {
		c.fail(errDebugRefused)
		return
	}
	if !foldEqual(c.args[1], "SLEEP") {
		c.fail(errNoDebug)
		return
	}
	if len(c.args) != 3 {
		c.fail("ERR wrong number of arguments for 'debug|sleep' command")
		return
	}
	seconds, err := strconv.ParseFloat(string(c.args[2]), 64)
	if err != nil || !(seconds >= 0 && seconds <= 3600) { // NaN is neither
		c.fail(errSleepRange)
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
		c.ok()
		return true
	})
}

func (c *call) functionFlush() {
	if len(c.args) > 3 || (len(c.args) == 3 && !foldEqual(c.args[2], "ASYNC") && !foldEqual(c.args[2], "SYNC")) {
		c.fail(errFunctionFlush)
		return
	}
	c.ok()
}

func (c *call) functionList() {
	for i := 2; i < len(c.args); i++ {
		switch {
		case foldEqual(c.args[i], "WITHCODE"):
		case foldEqual(c.args[i], "LIBRARYNAME") && i+1 < len(c.args):
			i++
		default:
			c.fail("ERR Unknown argument " + plainCut(c.args[i]))
			return
		}
	}
	c.array(0)
}

func (c *call) functionStats() {
	c.mapOf(2)
	c.text("running_script")
	c.null()
	c.text("engines")
	c.mapOf(0)
}

// The bucket that LOLWUT draws, in characters.
const (
	bucketRows  = 6
	bucketWidth = 24
)

// lolwut draws a bucket that leaks empty in the course of each minute. It accepts any
// arguments, as Redis does.
func (c *call) lolwut() {
	second := int(c.now / int64(time.Second) % 60)
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
	c.verbatim(b.String())
}
