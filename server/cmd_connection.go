package server

import (
	"bytes"

	"limitdb/resp"
	"limitdb/server/auth"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/redact"
	"limitdb/server/spec"
	"limitdb/server/users"
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
	c.srv.monitors.Remove(&c.client.pub)
	c.client.subs.Clear()
	c.client.pub.CountSubs()
	track(c.client, false)
	c.client.multi.end(c.client)
	c.client.replies = replyOn
	c.client.fwd.close()
	c.client.knowsClusters, c.client.readOnly = false, false
	c.Proto = resp.RESP2
	c.client.pub.RESP3.Store(false)
	c.client.pub.Say(&c.client.pub.Name, nil, errClientName)
	c.client.pub.Exempt(false)
	become(c.client, c.srv.auth.Default(), c.srv.auth.Open())
	c.Simple("RESET")
}

func authCommand(c *call) {
	if len(c.Args) > 3 {
		c.Fail(spec.ErrSyntax)
		return
	}
	user, pass := []byte(users.Default), c.Args[len(c.Args)-1]
	if len(c.Args) == 3 {
		user = c.Args[1]
	}
	if len(c.Args) == 2 && c.srv.auth.Open() {
		c.Fail(errNoPassword)
		return
	}
	c.login(user, pass, c.OK)
}

// login compares a password and, if it is right, calls then, which replies. If it is wrong, login has
// replied. Either may happen later, when it is the address's turn: until then the session is parked.
func (c *call) login(user, pass []byte, then func()) {
	srv := c.srv
	from := c.client.conn.RemoteAddr()
	g := &guess{call: c, of: c.cmd, attempt: auth.NewAttempt(user, pass), user: logged(user), then: then}
	if srv.auth.IsPassword(user) {
		g.user = redact.Text // it is in the wrong place
	}
	g.guarded = srv.auth.Needs(string(user))
	g.compared = srv.auth.Knows(from, c.Began) || !g.guarded
	if g.compared && g.enter() {
		return
	}
	wait, ok := srv.auth.Turn(c.Began, from, c.client.conn)
	switch {
	case !ok:
		if !g.compared {
			srv.counters.authFailures.Add(1)
			srv.log.Info("AUTH refused: too many attempts from its address", "addr", c.client.pub.Addr(), "user", g.user)
		}
		c.Fail(errTooManyAuth)
		c.client.life.Drain(clients.ErrGuesses)
	case wait <= 0:
		if g.compared || !g.enter() {
			c.Fail(errWrongPass)
		}
	default:
		g.until = c.Began + wait
		c.client.park(g)
	}
}

// A guess is an attempt to authenticate. It is what the session waits for if its answer waits for its turn.
type guess struct {
	*call
	of       *command // that makes it
	attempt  *auth.Attempt
	user     string // for the log
	guarded  bool   // the user must give a password
	until    int64  // ns of Unix time, when it is its turn
	compared bool   // and the password is wrong
	then     func() // replies if the password is right
}

func (g *guess) resume(s *session) bool {
	if g.Began < g.until {
		return false
	}
	if g.compared || !g.enter() {
		s.stripe.Fail(g.of.ID)
		g.Fail(errWrongPass)
	}
	return true
}

// enter authenticates the client and calls then if the password is right, and reports whether it is.
func (g *guess) enter() bool {
	srv, s := g.srv, g.client
	rights := srv.auth.Right(g.attempt)
	if rights == nil {
		srv.counters.authFailures.Add(1)
		srv.log.Info("AUTH failed", "addr", s.pub.Addr(), "user", g.user)
		g.note(auth.Event{Reason: users.Auth, Context: "toplevel", Object: g.of.Name, User: g.user})
		return false
	}
	if g.guarded {
		srv.auth.Enter(s.conn.RemoteAddr(), g.Now, s.knows)
		s.knows = true
	}
	become(s, rights, true)
	s.auto = false
	g.then()
	return true
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
	welcome := func() { greet(c, proto, name) }
	switch {
	case user != nil:
		c.login(user, pass, welcome)
	case !c.client.authed:
		c.Fail(errHelloNoAuth)
	default:
		welcome()
	}
}

// greet sets the protocol and, unless it is nil, the name of a client, and replies to its HELLO.
func greet(c *call, proto resp.Proto, name []byte) {
	if name != nil {
		c.client.pub.Say(&c.client.pub.Name, name, errClientName)
	}
	c.client.fwd.close() // the next one says what is true now
	c.Proto = proto
	c.client.pub.RESP3.Store(proto == resp.RESP3)
	role := map[bool]string{true: "master", false: "replica"}[c.srv.opts.Replication.Leads()]
	c.Fields("server", "redis", "version", redisVersion, "proto", int(proto), "id", c.client.pub.ID, "mode", modeOf(c.Clustered), "role", role, "modules", []string{})
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
