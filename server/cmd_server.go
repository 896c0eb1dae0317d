package server

import (
	"strconv"
	"time"
)

// The server as a whole.
func serverCommands() []command {
	return []command{
		{
			name: "INFO", arity: -1, flags: flagLoading | flagStale | flagDangerous, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Describes the server, in sections.", args: []argument{{name: "section", kind: "string", optional: true, multiple: true}},
			run: (*session).info,
		},
		{
			name: "TIME", arity: 1, flags: flagFast | flagLoading | flagStale, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Replies the time that decisions are made by: Unix seconds and microseconds.",
			run: func(s *session, _ [][]byte) {
				s.array(2)
				s.text(strconv.FormatInt(s.now/1e9, 10))
				s.text(strconv.FormatInt(s.now/1e3%1e6, 10))
			},
		},
		{
			name: "RL.CLOCK", example: "RL.CLOCK ADOPT", arity: -1, flags: flagAdmin | flagStale, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Tells how far the time of decisions is behind the machine's clock, and adopts that.",
			args:    []argument{{name: "adopt", kind: "pure-token", token: "ADOPT", optional: true}},
			run:     (*session).clock,
		},
		{
			name: "MONITOR", arity: 1, flags: flagAdmin | flagLoading | flagStale, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Sends every command that runs, from now on.",
			run: func(s *session, _ [][]byte) {
				s.ok()
				s.flush() // the reply comes before the first line
				s.srv.monitors.add(s)
			},
		},
		{
			name: "SHUTDOWN", arity: -1, flags: flagAdmin | flagLoading | flagStale, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Stops the server.",
			args: []argument{
				{name: "save-selector", kind: "oneof", optional: true, args: []argument{{name: "nosave", kind: "pure-token", token: "NOSAVE"}, {name: "save", kind: "pure-token", token: "SAVE"}}},
				{name: "now", kind: "pure-token", token: "NOW", optional: true},
				{name: "force", kind: "pure-token", token: "FORCE", optional: true},
			},
			run: (*session).shutdown,
		},
	}
}

// clock is RL.CLOCK.
func (s *session) clock(args [][]byte) {
	moved := int64(0)
	switch {
	case len(args) == 1:
	case len(args) == 2 && foldEqual(args[1], "ADOPT"):
		if moved = s.srv.clock.Adopt(); moved > 0 {
			s.srv.log.Warn("a client had decisions adopt the machine's clock", "addr", s.addr(), "forwards", time.Duration(moved))
		}
		s.now = max(s.now, s.srv.clock.Now())
	default:
		s.fail(errSyntax)
		return
	}
	s.mapOf(3)
	s.text("time")
	s.int(s.now / 1e3)
	s.text("behind")
	s.int(s.srv.clock.Behind() / 1e3)
	s.text("moved")
	s.int(moved / 1e3)
}

func (s *session) shutdown(args [][]byte) {
	now, save := false, false
	for _, a := range args[1:] {
		switch {
		case foldEqual(a, "NOW"), foldEqual(a, "FORCE"):
			now = true
		case foldEqual(a, "NOSAVE"):
		case foldEqual(a, "SAVE"):
			if !s.keeps() {
				return
			}
			save = true
		case foldEqual(a, "ABORT"):
			s.fail("ERR No shutdown in progress.")
			return
		default:
			s.fail(errSyntax)
			return
		}
	}
	if s.srv.opts.Shutdown == nil {
		s.fail("ERR SHUTDOWN is not available here")
		return
	}
	s.srv.log.Warn("a client said SHUTDOWN", "addr", s.addr())
	srv := s.srv
	go func() {
		if save {
			if err := srv.Snapshot(); err != nil {
				srv.log.Error("the snapshot before the stop failed", "err", err)
			}
		}
		srv.opts.Shutdown(now)
	}()
}
