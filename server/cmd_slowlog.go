package server

import "limitdb/resp"

// SLOWLOG: the last commands that took long.
func slowlogCommands() []command {
	sub := func(name string, arity int, f flags, complexity, summary string, run func(*session, [][]byte), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f | flagLoading | flagStale, group: "server", since: "1.0.0",
			complexity: complexity, summary: summary, args: args, run: run,
		}
	}
	return []command{{
		name: "SLOWLOG", arity: -2, group: "server", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "A container for commands about the slow log.",
		subs: []command{
			sub("GET", -2, flagAdmin, "O(n) for n entries", "Replies the newest entries, 10 by default; -1: all.", (*session).slowlogGet,
				argument{name: "count", kind: "integer", optional: true}),
			sub("LEN", 2, flagAdmin, "O(1)", "Counts the entries.", func(s *session, _ [][]byte) { s.int(s.srv.slowlog.len()) }),
			sub("RESET", 2, flagAdmin, "O(1)", "Forgets the entries.", func(s *session, _ [][]byte) {
				s.srv.slowlog.reset()
				s.ok()
			}),
			sub("HELP", 2, 0, "O(1)", "Lists the subcommands.", (*session).help),
		},
	}}
}

func (s *session) slowlogGet(args [][]byte) {
	count := int64(10)
	switch {
	case len(args) > 3:
		s.fail("ERR wrong number of arguments for 'slowlog|get' command")
		return
	case len(args) == 3:
		var ok bool
		if count, ok = resp.ParseInt(args[2]); !ok || count < -1 {
			s.fail(errSlowlogCount)
			return
		}
	}
	entries := s.srv.slowlog.last(count)
	s.array(len(entries))
	for _, e := range entries {
		s.array(6)
		s.int(e.id)
		s.int(e.at)
		s.int(e.us)
		s.texts(e.args)
		s.text(e.addr)
		s.text(e.name)
	}
}
