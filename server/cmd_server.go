package server

import (
	"strconv"
)

// The server as a whole.
func serverCommands() []command {
	nothing := func(name, summary string, args ...argument) command {
		return command{
			name: name, arity: -1, flags: flagAdmin, group: "server", since: "1.0.0", complexity: "O(1)", summary: summary,
			args: args, run: func(s *session, _ [][]byte) { s.fail(errNoPersistence) },
		}
	}
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
		nothing("SAVE", "An error: the state is kept in memory only."),
		nothing("BGSAVE", "An error: the state is kept in memory only.", argument{name: "schedule", kind: "pure-token", token: "SCHEDULE", optional: true}),
		nothing("BGREWRITEAOF", "An error: the state is kept in memory only."),
		{
			name: "LASTSAVE", arity: 1, flags: flagFast | flagLoading | flagStale, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Replies when the server started: nothing is ever saved.",
			run:     func(s *session, _ [][]byte) { s.int(s.srv.started / 1e9) },
		},
	}
}

func (s *session) shutdown(args [][]byte) {
	now := false
	for _, a := range args[1:] {
		switch {
		case foldEqual(a, "NOW"), foldEqual(a, "FORCE"):
			now = true
		case foldEqual(a, "NOSAVE"):
		case foldEqual(a, "SAVE"):
			s.fail(errNoPersistence)
			return
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
	go s.srv.opts.Shutdown(now)
}
