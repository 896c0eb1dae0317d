package server

import (
	"limitdb/resp"
	"limitdb/server/spec"
)

// The connection itself.
func connectionCommands() []command {
	const conn = spec.Fast | spec.Loading | spec.Stale | spec.Conn
	return []command{
		{
			Command: spec.Command{
				Name: "PING", Arity: -1, Flags: spec.Script | spec.Fast | spec.Conn, Group: "connection", Complexity: "O(1)",
				Summary: "Returns PONG, or its argument.", Args: []spec.Argument{{Name: "message", Kind: "string", Optional: true}},
			},
			run: (*call).ping,
		},
		{
			Command: spec.Command{
				Name: "ECHO", Arity: 2, Flags: spec.Script | conn, Group: "connection", Complexity: "O(1)",
				Summary: "Returns its argument.", Args: []spec.Argument{{Name: "message", Kind: "string"}},
			},
			run: func(c *call) { c.Bulk(c.Args[1]) },
		},
		{
			Command: spec.Command{
				Name: "QUIT", Arity: -1, Flags: spec.Now | conn | spec.NoAuth | spec.Client, Group: "connection", Complexity: "O(1)",
				Summary: "Closes the connection.",
			},
			run: func(c *call) {
				c.OK()
				c.client.life.Drain(errQuit)
			},
		},
		{
			Command: spec.Command{
				Name: "RESET", Arity: 1, Flags: spec.Now | conn | spec.NoAuth | spec.Client, Group: "connection", Complexity: "O(1)",
				Summary: "Resets the connection to its initial state.",
			},
			run: (*call).reset,
		},
		{
			Command: spec.Command{
				Name: "AUTH", Arity: -2, Flags: spec.NoMulti | conn | spec.NoAuth | spec.Client | spec.SkipMonitor, Group: "connection", Complexity: "O(1)",
				Summary: "Authenticates the connection.",
				Args:    []spec.Argument{{Name: "username", Kind: "string", Optional: true}, {Name: "password", Kind: "string"}},
			},
			run: (*call).auth,
		},
		{
			Command: spec.Command{
				Name: "HELLO", Arity: -1, Flags: spec.NoMulti | conn | spec.NoAuth | spec.Client, Group: "connection", Complexity: "O(1)",
				Summary: "Chooses RESP2 or RESP3, and optionally authenticates and names the connection.",
				Args: []spec.Argument{{Name: "arguments", Kind: "block", Optional: true, Args: []spec.Argument{
					{Name: "protover", Kind: "integer"},
					{Name: "auth", Kind: "block", Token: "AUTH", Optional: true, Args: []spec.Argument{{Name: "username", Kind: "string"}, {Name: "password", Kind: "string"}}},
					{Name: "clientname", Kind: "string", Token: "SETNAME", Optional: true},
				}}},
			},
			run: (*call).hello,
		},
		{
			Command: spec.Command{
				Name: "SELECT", Arity: 2, Flags: spec.Script | conn, Group: "connection", Complexity: "O(1)",
				Summary: "Accepts any index below databases; they all share one key space.",
				Args:    []spec.Argument{{Name: "index", Kind: "integer"}},
			},
			run: (*call).selectDB,
		},
	}
}

func (c *call) ping() {
	if len(c.Args) > 2 {
		c.Fail("ERR wrong number of arguments for 'ping' command")
		return
	}
	if c.subscribed() {
		c.Array(2)
		c.Text("pong")
		if len(c.Args) == 2 {
			c.Bulk(c.Args[1])
		} else {
			c.Text("")
		}
		return
	}
	if len(c.Args) == 2 {
		c.Bulk(c.Args[1])
		return
	}
	c.Simple("PONG")
}

func (c *call) reset() {
	c.srv.monitors.remove(c.client)
	c.client.dropSubscriptions()
	c.client.track(nil)
	c.client.endMulti()
	c.client.replies = replyOn
	c.client.closeStream()
	c.client.knowsClusters, c.client.readOnly = false, false
	c.Proto = resp.RESP2
	c.client.pub.resp3.Store(false)
	c.client.storeText(&c.client.pub.name, nil)
	c.client.pub.noEvict.Store(false)
	c.client.setAuthed(c.srv.password() == "")
	c.Simple("RESET")
}

func (c *call) hello() {
	proto := c.Proto
	if len(c.Args) > 1 {
		v, ok := resp.ParseInt(c.Args[1])
		if !ok {
			c.Fail(errProtoNotInt)
			return
		}
		if v != 2 && v != 3 {
			c.Fail(errNoProto)
			return
		}
		proto = resp.Proto(v)
	}
	var user, pass, name []byte
	for i := 2; i < len(c.Args); {
		switch {
		case resp.EqualFold(c.Args[i], "AUTH") && i+2 < len(c.Args):
			user, pass = c.Args[i+1], c.Args[i+2]
			i += 3
		case resp.EqualFold(c.Args[i], "SETNAME") && i+1 < len(c.Args):
			name = c.Args[i+1]
			if text := nameError(name, errClientName); text != "" {
				c.Fail(text)
				return
			}
			i += 2
		default:
			c.Fail("ERR Syntax error in HELLO option '" + resp.Excerpt(c.Args[i]) + "'")
			return
		}
	}
	if user != nil && !c.login(user, pass) {
		return
	}
	if !c.client.authed {
		c.Fail(errHelloNoAuth)
		return
	}
	if name != nil {
		c.client.storeText(&c.client.pub.name, name)
	}
	c.client.closeStream() // the next one says what is true now
	c.Proto = proto
	c.client.pub.resp3.Store(proto == resp.RESP3)
	c.Map(7)
	c.Text("server")
	c.Text("redis")
	c.Text("version")
	c.Text(redisVersion)
	c.Text("proto")
	c.Int(int64(proto))
	c.Text("id")
	c.Int(c.client.id)
	c.Text("mode")
	c.Text(c.srv.mode())
	c.Text("role")
	c.Text(map[bool]string{true: "master", false: "replica"}[c.srv.opts.Replication.Leads()])
	c.Text("modules")
	c.Array(0)
}

func (c *call) selectDB() {
	n, ok := resp.ParseInt(c.Args[1])
	if !ok {
		c.Fail(spec.ErrNotInt)
		return
	}
	if n < 0 || n >= c.srv.set.Databases.Get() {
		c.Fail(spec.ErrDBIndex)
		return
	}
	c.OK()
}
