package server

import (
	"math"
	"strconv"
	"strings"
	"time"

	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/monitor"
	"limitdb/server/slowlog"
	"limitdb/server/spec"
)

// debugRows are commands that clients send to every Redis server and that mean little here:
// DEBUG, MODULE, FUNCTION, LOLWUT.
func debugRows() []row {
	cmd, function := handler.Rows[call]("server", "O(1)", 0), handler.Rows[call]("scripting", "O(1)", 0)
	none := func(c *call) { c.Array(0) }
	noModules := func(c *call) { c.Fail(errNoSuchModule) }
	path := spec.Text("path")
	const debug = spec.Client | spec.Admin
	return []row{
		handler.Container("DEBUG", "server", "A container for commands to test with.",
			cmd("SLEEP", 3, debug|spec.Loading|spec.Stale, "Delays the reply by some seconds.", debugSleep, spec.Argument{Name: "seconds", Kind: "double"}),
		),
		handler.Container("MODULE", "server", "A container for commands about modules. There are none.",
			cmd("LIST", 2, spec.Admin, "Returns an empty list: no modules are loaded.", none),
			cmd("LOAD", -3, spec.Admin, "Returns an error: limitdb loads no modules.", noModules, path),
			cmd("LOADEX", -3, spec.Admin, "Returns an error: limitdb loads no modules.", noModules, path),
			cmd("UNLOAD", 3, spec.Admin, "Returns an error: limitdb loads no modules.", noModules, spec.Text("name")),
		),
		handler.Container("FUNCTION", "scripting", "A container for commands about functions. There are none.",
			function("FLUSH", -2, spec.Write, "Returns OK: there are no functions to delete.", functionFlush,
				spec.OneOf("flush-type", spec.Word("ASYNC"), spec.Word("SYNC"))),
			function("LIST", -2, 0, "Returns an empty list: there are no functions.", functionList,
				spec.Argument{Name: "library-name-pattern", Kind: "string", Token: "LIBRARYNAME", Optional: true}, spec.Optional(spec.Word("WITHCODE"))),
			function("STATS", 2, 0, "Reports that no function runs and that there is no engine to run one.", functionStats),
		),
		cmd("LOLWUT", -1, spec.Readonly|spec.Fast, "Draws a bucket and shows the version.", lolwut,
			spec.Argument{Name: "version", Kind: "integer", Token: "VERSION", Optional: true}),
	}
}

// mayDebug reports whether the client may use DEBUG. If not, it replies with the error.
func mayDebug(c *call) bool {
	who := c.srv.set.DebugCommand.Get()
	if who == "no" || who == "local" && !clients.IsLocal(c.client.conn.RemoteAddr()) {
		c.Fail(errDebugRefused)
		return false
	}
	return true
}

func debugSleep(c *call) {
	if !mayDebug(c) {
		return
	}
	seconds, err := strconv.ParseFloat(string(c.Args[2]), 64)
	if err != nil || !(seconds >= 0 && seconds <= 3600) { // NaN is neither
		c.Fail(errSleepRange)
		return
	}
	c.sleep(time.Duration(math.Round(seconds * float64(time.Second))))
}

// sleep replies OK after d, unless the client has gone by then.
func (c *call) sleep(d time.Duration) {
	cmd, gone := c.cmd, c.client.leaves()
	c.Client.Background(func() error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-gone:
		}
		return nil
	}, func(error) { // the slow log records it as if it were work
		seconds := strconv.AppendFloat(nil, d.Seconds(), 'f', -1, 64)
		c.client.logSlow(cmd, [][]byte{[]byte("DEBUG"), []byte("SLEEP"), seconds}, c.Began, int64(d))
		c.OK()
	})
}

func functionFlush(c *call) {
	if len(c.Args) > 3 || (len(c.Args) == 3 && !resp.EqualFold(c.Args[2], "ASYNC") && !resp.EqualFold(c.Args[2], "SYNC")) {
		c.Fail(errFunctionFlush)
		return
	}
	c.OK()
}

func functionList(c *call) {
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

func functionStats(c *call) {
	c.Fields("running_script", c.Null, "engines", func() { c.Map(0) })
}

// The bucket that LOLWUT draws, in characters.
const (
	bucketRows  = 6
	bucketWidth = 24
)

// lolwut draws a bucket that leaks empty in the course of each minute. It accepts any
// arguments, as Redis does.
func lolwut(c *call) {
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

// monitorCommand is MONITOR.
func monitorCommand(c *call) {
	added := c.srv.monitors.Add(&c.client.pub, func() {
		if c.client.replies == replyOn {
			c.OK()
		}
		c.client.flush()
	})
	if !added {
		c.Fail("ERR MONITOR is refused: " + strconv.Itoa(monitor.Most) + " clients monitor already")
	}
}

// feed shows a command that has run, and what it has called if it was a script, to the clients that monitor.
func (c *call) feed(cmd *command, args [][]byte) {
	c.show(append(c.monitored(nil, cmd, args), c.called...))
	c.called = nil
}

// monitored appends the line of a command that has run.
func (c *call) monitored(b []byte, cmd *command, args [][]byte) []byte {
	from, s := httpAddr, c.client
	if s != nil {
		from = s.pub.Addr()
		if local := s.conn.LocalAddr(); clients.IsUnix(local) {
			from = "unix:" + local.String()
		}
	}
	return monitor.AppendLine(b, from, c.Began, c.srv.redact.Args(&cmd.Command, args))
}

// show sends lines to the clients that monitor. This one gets them after its reply.
func (c *call) show(lines []byte) {
	own := (*clients.Client)(nil)
	if c.client != nil {
		own = &c.client.pub
	}
	if c.srv.monitors.Send(lines, own) {
		c.Out = append(c.Out, lines...)
	}
}

// logSlow logs a command that has run at a time for took nanoseconds, if that is slow.
func (s *session) logSlow(cmd *command, args [][]byte, at, took int64) {
	if log := &s.srv.slowlog; log.Slow(took) {
		log.Note(&s.pub, slowlog.Cut(s.srv.redact.Args(&cmd.Command, args)), at, took)
	}
}
