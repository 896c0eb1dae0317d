package server

import (
	"bytes"

	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// The connection itself.
func connectionRows() []row {
	const conn = spec.Fast | spec.Loading | spec.Stale | spec.Conn
	const own = conn | spec.NoAuth | spec.Client
	cmd := handler.Rows[call]("connection", "O(1)", spec.Conn)
	message := spec.Text("message")
	user, password := spec.Text("username"), spec.Text("password")
	auth := spec.Argument{Name: "auth", Kind: "block", Token: "AUTH", Optional: true, Args: []spec.Argument{user, password}}
	return []row{
		cmd("PING", -1, spec.Script|spec.Fast, "Returns PONG, or its argument.", ping, spec.Optional(message)),
		cmd("ECHO", 2, spec.Script|conn, "Returns its argument.", func(c *call) { c.Bulk(c.Args[1]) }, message),
		cmd("QUIT", -1, spec.Now|own, "Closes the connection.", func(c *call) {
			c.OK()
			c.client.life.Drain(clients.ErrQuit)
		}),
		cmd("RESET", 1, spec.Now|own, "Resets the connection to its initial state.", reset),
		cmd("AUTH", -2, spec.NoMulti|own|spec.SkipMonitor, "Authenticates the connection.", authCommand, spec.Optional(user), password),
		cmd("HELLO", -1, spec.NoMulti|own, "Chooses RESP2 or RESP3, and optionally authenticates and names the connection.", hello,
			spec.Argument{Name: "arguments", Kind: "block", Optional: true, Args: []spec.Argument{
				spec.Integer("protover"), auth, {Name: "clientname", Kind: "string", Token: "SETNAME", Optional: true},
			}}),
		cmd("SELECT", 2, spec.Script|conn, "Accepts any index below databases; they all share one key space.", selectDB, spec.Integer("index")),
	}
}

func ping(c *call) {
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

func reset(c *call) {
	c.srv.monitors.remove(&c.client.pub)
	c.client.dropSubscriptions()
	c.client.track(nil)
	c.client.endMulti()
	c.client.replies = replyOn
	c.client.fwd.close()
	c.client.knowsClusters, c.client.readOnly = false, false
	c.Proto = resp.RESP2
	c.client.pub.RESP3.Store(false)
	c.client.pub.Say(&c.client.pub.Name, nil, errClientName)
	c.client.pub.Exempt(false)
	c.client.setAuthed(c.srv.password() == "")
	c.Simple("RESET")
}

func hello(c *call) {
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
			if text := clients.TextError(name, errClientName); text != "" {
				c.Fail(text)
				return
			}
			i += 2
		default:
			c.Fail("ERR Syntax error in HELLO option '" + resp.Excerpt(c.Args[i]) + "'")
			return
		}
	}
	name = bytes.Clone(name) // the client may wait
	greet := func() { c.greet(proto, name) }
	switch {
	case user != nil:
		c.login(user, pass, greet)
	case !c.client.authed:
		c.Fail(errHelloNoAuth)
	default:
		greet()
	}
}

// greet sets the protocol and, unless it is nil, the name of a client, and replies to its HELLO.
func (c *call) greet(proto resp.Proto, name []byte) {
	if name != nil {
		c.client.pub.Say(&c.client.pub.Name, name, errClientName)
	}
	c.client.fwd.close() // the next one says what is true now
	c.Proto = proto
	c.client.pub.RESP3.Store(proto == resp.RESP3)
	role := map[bool]string{true: "master", false: "replica"}[c.srv.opts.Replication.Leads()]
	c.Fields("server", "redis", "version", redisVersion, "proto", int(proto), "id", c.client.pub.ID, "mode", c.srv.mode(), "role", role, "modules", []string{})
}

func selectDB(c *call) {
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
