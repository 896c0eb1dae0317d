package server

import (
	"limitdb/resp"
)

// The connection itself.
func connectionCommands() []command {
	const conn = flagFast | flagLoading | flagStale | flagConn
	return []command{
		{
			name: "PING", arity: -1, flags: flagFast | flagConn, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Replies PONG, or its argument.", args: []argument{{name: "message", kind: "string", optional: true}},
			run: (*session).ping,
		},
		{
			name: "ECHO", arity: 2, flags: conn, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Replies its argument.", args: []argument{{name: "message", kind: "string"}},
			run: func(s *session, args [][]byte) { s.bulk(args[1]) },
		},
		{
			name: "QUIT", arity: -1, flags: conn | flagNoAuth, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Closes the connection.",
			run: func(s *session, _ [][]byte) {
				s.ok()
				s.closeAfterReply(errQuit)
			},
		},
		{
			name: "RESET", arity: 1, flags: conn | flagNoAuth, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Brings the connection back to how it was when it was made.", run: (*session).reset,
		},
		{
			name: "AUTH", arity: -2, flags: conn | flagNoAuth | flagSkipMonitor, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Authenticates the connection.",
			args:    []argument{{name: "username", kind: "string", optional: true}, {name: "password", kind: "string"}},
			run:     (*session).auth,
		},
		{
			name: "HELLO", arity: -1, flags: conn | flagNoAuth, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Chooses RESP2 or RESP3, and may authenticate and name the connection.",
			args: []argument{{name: "arguments", kind: "block", optional: true, args: []argument{
				{name: "protover", kind: "integer"},
				{name: "auth", kind: "block", token: "AUTH", optional: true, args: []argument{{name: "username", kind: "string"}, {name: "password", kind: "string"}}},
				{name: "clientname", kind: "string", token: "SETNAME", optional: true},
			}}},
			run: (*session).hello,
		},
		{
			name: "SELECT", arity: 2, flags: conn, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Accepts any index below databases; there is one key space behind all of them.",
			args:    []argument{{name: "index", kind: "integer"}},
			run:     (*session).selectDB,
		},
	}
}

func (s *session) ping(args [][]byte) {
	if len(args) > 2 {
		s.fail("ERR wrong number of arguments for 'ping' command")
		return
	}
	if s.subs.count > 0 && s.proto == resp.RESP2 {
		s.array(2)
		s.text("pong")
		if len(args) == 2 {
			s.bulk(args[1])
		} else {
			s.text("")
		}
		return
	}
	if len(args) == 2 {
		s.bulk(args[1])
		return
	}
	s.simple("PONG")
}

func (s *session) reset([][]byte) {
	s.srv.monitors.remove(s)
	s.dropSubscriptions()
	s.track(nil)
	s.replies = replyOn
	s.proto = resp.RESP2
	s.pub.resp3.Store(false)
	s.storeText(&s.pub.name, nil)
	s.pub.noEvict.Store(false)
	s.setAuthed(s.srv.password() == "")
	s.simple("RESET")
}

func (s *session) setAuthed(on bool) {
	s.authed = on
	s.pub.authed.Store(on)
	s.setReaderLimits()
}

// setReaderLimits gives the reader the bounds for a client before or after AUTH.
func (s *session) setReaderLimits() {
	set := s.srv.set
	s.lengths = s.srv.lengths.Load()
	if !s.authed {
		s.rd.Limits = resp.Limits{Args: 10, WideArgs: 10, Bulk: 16 << 10, Inline: 4 << 10, Query: 64 << 10, Unauthenticated: true}
		return
	}
	s.rd.Limits = resp.Limits{
		Args: 1024, WideArgs: 65536, Inline: 64 << 10,
		Bulk: int(set.ProtoMaxBulkLen.Get()), Query: int(set.ClientQueryBufferLimit.Get()),
	}
}

func (s *session) hello(args [][]byte) {
	proto := s.proto
	if len(args) > 1 {
		v, ok := resp.ParseInt(args[1])
		if !ok {
			s.fail(errProtoNotInt)
			return
		}
		if v != 2 && v != 3 {
			s.fail(errNoProto)
			return
		}
		proto = resp.Proto(v)
	}
	var user, pass, name []byte
	for i := 2; i < len(args); {
		switch {
		case foldEqual(args[i], "AUTH") && i+2 < len(args):
			user, pass = args[i+1], args[i+2]
			i += 3
		case foldEqual(args[i], "SETNAME") && i+1 < len(args):
			name = args[i+1]
			if text := nameError(name, errClientName); text != "" {
				s.fail(text)
				return
			}
			i += 2
		default:
			s.fail("ERR Syntax error in HELLO option '" + plainCut(args[i]) + "'")
			return
		}
	}
	if user != nil && !s.login(user, pass) {
		return
	}
	if !s.authed {
		s.fail(errHelloNoAuth)
		return
	}
	if name != nil {
		s.storeText(&s.pub.name, name)
	}
	s.proto = proto
	s.pub.resp3.Store(proto == resp.RESP3)
	s.mapOf(7)
	s.text("server")
	s.text("redis")
	s.text("version")
	s.text(redisVersion)
	s.text("proto")
	s.int(int64(proto))
	s.text("id")
	s.int(s.id)
	s.text("mode")
	s.text("standalone")
	s.text("role")
	s.text("master")
	s.text("modules")
	s.array(0)
}

// redisVersion is the version whose replies clients may count on.
const redisVersion = "7.4.0"

func (s *session) selectDB(args [][]byte) {
	n, ok := resp.ParseInt(args[1])
	if !ok {
		s.fail(errNotInt)
		return
	}
	if n < 0 || n >= s.srv.set.Databases.Get() {
		s.fail(errDBIndex)
		return
	}
	s.ok()
}
