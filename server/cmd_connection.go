package server

import (
	"limitdb/resp"
)

// The connection itself.
func connectionCommands() []command {
	const conn = flagFast | flagLoading | flagStale | flagConn
	return []command{
		{
			name: "PING", arity: -1, flags: flagScript | flagFast | flagConn, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Returns PONG, or its argument.", args: []argument{{name: "message", kind: "string", optional: true}},
			run: (*call).ping,
		},
		{
			name: "ECHO", arity: 2, flags: flagScript | conn, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Returns its argument.", args: []argument{{name: "message", kind: "string"}},
			run: func(c *call) { c.bulk(c.args[1]) },
		},
		{
			name: "QUIT", arity: -1, flags: flagNow | conn | flagNoAuth | flagClient, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Closes the connection.",
			run: func(c *call) {
				c.ok()
				c.client.life.Drain(errQuit)
			},
		},
		{
			name: "RESET", arity: 1, flags: flagNow | conn | flagNoAuth | flagClient, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Resets the connection to its initial state.", run: (*call).reset,
		},
		{
			name: "AUTH", arity: -2, flags: flagNoMulti | conn | flagNoAuth | flagClient | flagSkipMonitor, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Authenticates the connection.",
			args:    []argument{{name: "username", kind: "string", optional: true}, {name: "password", kind: "string"}},
			run:     (*call).auth,
		},
		{
			name: "HELLO", arity: -1, flags: flagNoMulti | conn | flagNoAuth | flagClient, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Chooses RESP2 or RESP3, and optionally authenticates and names the connection.",
			args: []argument{{name: "arguments", kind: "block", optional: true, args: []argument{
				{name: "protover", kind: "integer"},
				{name: "auth", kind: "block", token: "AUTH", optional: true, args: []argument{{name: "username", kind: "string"}, {name: "password", kind: "string"}}},
				{name: "clientname", kind: "string", token: "SETNAME", optional: true},
			}}},
			run: (*call).hello,
		},
		{
			name: "SELECT", arity: 2, flags: flagScript | conn, group: "connection", since: "1.0.0", complexity: "O(1)",
			summary: "Accepts any index below databases; they all share one key space.",
			args:    []argument{{name: "index", kind: "integer"}},
			run:     (*call).selectDB,
		},
	}
}

func (c *call) ping() {
	if len(c.args) > 2 {
		c.fail("ERR wrong number of arguments for 'ping' command")
		return
	}
	if c.subscribed() {
		c.array(2)
		c.text("pong")
		if len(c.args) == 2 {
			c.bulk(c.args[1])
		} else {
			c.text("")
		}
		return
	}
	if len(c.args) == 2 {
		c.bulk(c.args[1])
		return
	}
	c.simple("PONG")
}

func (c *call) reset() {
	c.srv.monitors.remove(c.client)
	c.client.dropSubscriptions()
	c.client.track(nil)
	c.client.endMulti()
	c.client.replies = replyOn
	c.client.closeStream()
	c.client.knowsClusters, c.client.readOnly = false, false
	c.proto = resp.RESP2
	c.client.pub.resp3.Store(false)
	c.client.storeText(&c.client.pub.name, nil)
	c.client.pub.noEvict.Store(false)
	c.client.setAuthed(c.srv.password() == "")
	c.simple("RESET")
}

func (c *call) hello() {
	proto := c.proto
	if len(c.args) > 1 {
		v, ok := resp.ParseInt(c.args[1])
		if !ok {
			c.fail(errProtoNotInt)
			return
		}
		if v != 2 && v != 3 {
			c.fail(errNoProto)
			return
		}
		proto = resp.Proto(v)
	}
	var user, pass, name []byte
	for i := 2; i < len(c.args); {
		switch {
		case foldEqual(c.args[i], "AUTH") && i+2 < len(c.args):
			user, pass = c.args[i+1], c.args[i+2]
			i += 3
		case foldEqual(c.args[i], "SETNAME") && i+1 < len(c.args):
			name = c.args[i+1]
			if text := nameError(name, errClientName); text != "" {
				c.fail(text)
				return
			}
			i += 2
		default:
			c.fail("ERR Syntax error in HELLO option '" + plainCut(c.args[i]) + "'")
			return
		}
	}
	if user != nil && !c.login(user, pass) {
		return
	}
	if !c.client.authed {
		c.fail(errHelloNoAuth)
		return
	}
	if name != nil {
		c.client.storeText(&c.client.pub.name, name)
	}
	c.client.closeStream() // the next one says what is true now
	c.proto = proto
	c.client.pub.resp3.Store(proto == resp.RESP3)
	c.mapOf(7)
	c.text("server")
	c.text("redis")
	c.text("version")
	c.text(redisVersion)
	c.text("proto")
	c.int(int64(proto))
	c.text("id")
	c.int(c.client.id)
	c.text("mode")
	c.text(c.srv.mode())
	c.text("role")
	c.text(c.srv.role("replica"))
	c.text("modules")
	c.array(0)
}

// redisVersion is the version of Redis whose replies clients may expect.
const redisVersion = "7.4.0"

func (c *call) selectDB() {
	n, ok := resp.ParseInt(c.args[1])
	if !ok {
		c.fail(errNotInt)
		return
	}
	if n < 0 || n >= c.srv.set.Databases.Get() {
		c.fail(errDBIndex)
		return
	}
	c.ok()
}
