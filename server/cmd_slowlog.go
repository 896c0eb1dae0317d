package server

import (
	"math"
	"time"

	"limitdb/resp"
	"limitdb/server/slowlog"
	"limitdb/server/spec"
)

// slowlogCommands are SLOWLOG and its subcommands, which show the last slow commands.
func slowlogCommands() []command {
	sub := func(name string, arity int, f spec.Flags, complexity, summary string, run func(*call), args ...spec.Argument) command {
		return rows("server", complexity, spec.Loading|spec.Stale)(name, arity, f, summary, run, args...)
	}
	return []command{{
		Command: spec.Command{
			Name: "SLOWLOG", Arity: -2, Group: "server", Complexity: "Depends on subcommand.",
			Summary: "Container for commands about the slow log.",
		},
		subs: []command{
			sub("GET", -2, spec.Admin, "O(n) for n entries", "Returns the newest entries, 10 by default; -1: all.", (*call).slowlogGet,
				spec.Optional(spec.Integer("count"))),
			sub("LEN", 2, spec.Admin, "O(1)", "Counts the entries.", func(c *call) { c.Int(c.srv.slowlog.Len()) }),
			sub("RESET", 2, spec.Admin, "O(1)", "Forgets the entries.", func(c *call) {
				c.srv.slowlog.Reset()
				c.OK()
			}),
			sub("HELP", 2, 0, "O(1)", "Lists the subcommands.", (*call).help),
		},
	}}
}

func (c *call) slowlogGet() {
	count := int64(10)
	switch {
	case len(c.Args) > 3:
		c.Fail("ERR wrong number of arguments for 'slowlog|get' command")
		return
	case len(c.Args) == 3:
		var ok bool
		if count, ok = resp.ParseInt(c.Args[2]); !ok || count < -1 {
			c.Fail(errSlowlogCount)
			return
		}
	}
	if count < 0 {
		count = math.MaxInt64
	}
	var found []byte
	n, before := 0, int64(math.MaxInt64)
	c.InSteps(nil, func() bool {
		entries := c.srv.slowlog.Before(before, min(count-int64(n), slowlogStep))
		found = c.aside(found, func() {
			for i := range entries {
				c.slowEntry(&entries[i])
				before = entries[i].ID
			}
		})
		n += len(entries)
		if c.Holds = int64(cap(found)); len(entries) == slowlogStep {
			return false
		}
		c.Array(n)
		c.Out = append(c.Out, found...)
		return true
	})
}

// slowlogStep is how many entries a step replies.
const slowlogStep = 64

func (c *call) slowEntry(e *slowlog.Entry) {
	c.Array(6)
	c.Int(e.ID)
	c.Int(e.At)
	c.Int(e.Micros)
	c.Texts(e.Args)
	c.Text(e.Addr)
	c.Text(e.Name)
}

// offerSlow logs a command that has run for took nanoseconds, if that is slow. It leaves out a
// command that has parked its session, since that one is not finished, and waiting is not work.
func (s *session) offerSlow(cmd *command, args [][]byte, took int64) {
	if s.state == running {
		s.logSlow(cmd, args, took)
	}
}

// logSlow is offerSlow for any command.
func (s *session) logSlow(cmd *command, args [][]byte, took int64) {
	if s.srv.isSlow(took) {
		s.noteSlow(slowlog.Cut(s.srv.redact(cmd, args)), took)
	}
}

// isSlow reports whether took, in nanoseconds, reaches slowlog-log-slower-than.
func (srv *Server) isSlow(took int64) bool {
	least := srv.set.SlowlogLogSlowerThan.Get()
	return least >= 0 && took/int64(time.Microsecond) >= least
}

// noteSlow is logSlow for arguments that were redacted and cut before.
func (s *session) noteSlow(args []string, took int64) {
	if !s.srv.isSlow(took) {
		return
	}
	s.srv.slowlog.Add(int(s.srv.set.SlowlogMaxLen.Get()), slowlog.Entry{
		At: s.call.Now / int64(time.Second), Micros: took / int64(time.Microsecond), Args: args, Addr: s.addr(), Name: loadText(&s.pub.name),
	})
}
