package server

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"limitdb/resp"
)

// CLIENT and its subcommands.
func clientCommands() []command {
	sub := func(name string, arity int, f flags, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f | flagLoading | flagStale | flagConn | flagClient, group: "connection", since: "1.0.0",
			complexity: "O(1)", summary: summary, args: args, run: run,
		}
	}
	str := func(name string) argument { return argument{name: name, kind: "string"} }
	opt := func(a argument) argument { a.optional = true; return a }
	return []command{{
		name: "CLIENT", arity: -2, flags: flagConn, group: "connection", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "Container for commands about connections.",
		subs: []command{
			sub("ID", 2, flagFast, "Returns the connection's id.", func(c *call) { c.int(c.client.id) }),
			sub("INFO", 2, 0, "Describes this connection.", func(c *call) { c.verbatim(c.client.describe(c.srv.clock.Now()) + "\n") }),
			sub("LIST", -2, flagAdmin, "Describes the connections.", (*call).clientList,
				argument{name: "client-type", kind: "string", token: "TYPE", optional: true},
				argument{name: "client-id", kind: "integer", token: "ID", optional: true, multiple: true}),
			sub("SETNAME", 3, flagFast, "Names the connection.", (*call).clientSetName, str("connection-name")),
			sub("GETNAME", 2, flagFast, "Returns the connection's name.", (*call).clientGetName),
			sub("SETINFO", 4, flagFast, "Records the client library's name or version.", (*call).clientSetInfo, str("attr"), str("value")),
			sub("KILL", -3, flagAdmin, "Closes connections.", (*call).clientKill, argument{name: "filter", kind: "string", multiple: true}),
			sub("PAUSE", -3, flagAdmin, "Delays commands for a time.", (*call).clientPause,
				argument{name: "timeout", kind: "integer"}, opt(argument{name: "mode", kind: "oneof", args: []argument{
					{name: "write", kind: "pure-token", token: "WRITE"}, {name: "all", kind: "pure-token", token: "ALL"},
				}})),
			sub("UNPAUSE", 2, flagAdmin, "Ends a pause.", func(c *call) {
				c.srv.pause.stop()
				c.ok()
			}),
			sub("REPLY", 3, flagFast, "Turns replies on or off, or skips the next one.", (*call).clientReply, str("on-off-skip")),
			sub("NO-EVICT", 3, flagAdmin, "Exempts the connection from maxmemory-clients.", (*call).clientNoEvict, str("on-off")),
			sub("NO-TOUCH", 3, flagFast, "Accepted; reading a key never changes it.", onOffOnly, str("on-off")),
			sub("TRACKING", -3, 0, "Turns on OPTIN, the only accepted mode of client-side caching; it caches nothing.", (*call).clientTracking,
				argument{name: "status", kind: "oneof", args: []argument{
					{name: "on", kind: "pure-token", token: "ON"}, {name: "off", kind: "pure-token", token: "OFF"},
				}},
				argument{name: "client-id", kind: "integer", token: "REDIRECT", optional: true},
				argument{name: "optin", kind: "pure-token", token: "OPTIN", optional: true},
				argument{name: "noloop", kind: "pure-token", token: "NOLOOP", optional: true}),
			sub("TRACKINGINFO", 2, 0, "Describes what CLIENT TRACKING has set.", (*call).clientTrackingInfo),
			sub("CACHING", 3, flagFast, "Invalidates the keys of the next command at once, under CLIENT TRACKING ON OPTIN.", (*call).clientCaching,
				argument{name: "yes", kind: "pure-token", token: "YES"}),
			sub("GETREDIR", 2, flagFast, "Returns the id of the client that receives invalidations; 0: this one, -1: tracking is off.",
				func(c *call) { c.int(c.client.pub.redirect.Load()) }),
			sub("UNBLOCK", -3, flagAdmin, "Ends another connection's wait; returns 1, or 0 if it does not wait.", (*call).clientUnblock,
				argument{name: "client-id", kind: "integer"}, opt(argument{name: "unblock-type", kind: "oneof", args: []argument{
					{name: "timeout", kind: "pure-token", token: "TIMEOUT"}, {name: "error", kind: "pure-token", token: "ERROR"},
				}})),
			sub("HELP", 2, 0, "Lists the subcommands.", (*call).help),
		},
	}}
}

// help lists the subcommands of the container that was called.
func (c *call) help() {
	cmd := c.srv.table.find(c.args[0])
	lines := []string{cmd.name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for i := range cmd.subs {
		syntax := cmd.subs[i].appendSyntax(nil)
		lines = append(lines, string(syntax[len(cmd.name)+1:]), "    "+cmd.subs[i].summary)
	}
	c.array(len(lines))
	for _, l := range lines {
		c.simple(l)
	}
}

// describe is the connection's line of CLIENT LIST.
func (s *session) describe(now int64) string { return string(s.appendLine(nil, now)) }

// appendLine appends what describe returns to b.
func (s *session) appendLine(b []byte, now int64) []byte {
	p := &s.pub
	l := lineOf(b)
	local := s.conn.LocalAddr()
	l.int("id=", s.id)
	l = appendAddr(append(l, " addr="...), s.conn.RemoteAddr(), local)
	l = appendAddr(append(l, " laddr="...), local, local)
	l.int(" fd=", int64(s.conn.FD()))
	l.text(" name=", loadText(&p.name))
	l.int(" age=", (now-p.created)/int64(time.Second))
	l.int(" idle=", max(0, now-p.lastActive.Load())/int64(time.Second))
	l = append(l, " flags="...)
	none := len(l)
	for _, f := range [...]struct {
		on   bool
		flag byte
	}{
		{p.monitor.Load(), 'O'},
		{p.subscribed.Load() > 0, 'P'},
		{p.parked.Load(), 'b'},
		{p.redirect.Load() >= 0, 't'},
		{p.noEvict.Load(), 'e'},
		{isUnix(local), 'U'},
	} {
		if f.on {
			l = append(l, f.flag)
		}
	}
	if len(l) == none {
		l = append(l, 'N')
	}
	subs := s.subs.counts()
	l.int(" db=0 sub=", int64(subs[subChannel]))
	l.int(" psub=", int64(subs[subPattern]))
	l.int(" ssub=", int64(subs[subShard]))
	queued, mem := p.buffered.Load(), s.memory()
	l.int(" multi=-1 watch=0 qbuf=", queued)
	l.int(" qbuf-free=", max(0, mem.query-queued))
	l.int(" argv-mem=", mem.args)
	l.int(" multi-mem=0 rbs=0 rbp=0 obl=", mem.held)
	l.int(" oll=", mem.unsentIn)
	l.int(" omem=", mem.unsent)
	l.int(" tot-mem=", mem.total())
	cmd := "NULL"
	if c := p.lastCmd.Load(); c != nil {
		cmd = c.full
	}
	l.text(" events=r cmd=", cmd)
	version := int64(2)
	if p.resp3.Load() {
		version = 3
	}
	l.int(" user=default redir=", p.redirect.Load())
	l.int(" resp=", version)
	l.text(" lib-name=", loadText(&p.libName))
	l.text(" lib-ver=", loadText(&p.libVer))
	return l
}

func (c *call) clientList() {
	var list []byte
	now := c.srv.clock.Now()
	line := func(other *session) {
		list = append(other.appendLine(list, now), '\n')
		c.holds = int64(cap(list))
	}
	end := func() { c.verbatim(string(list)) }
	switch {
	case len(c.args) == 2:
		c.eachClient(line, end)
	case len(c.args) == 4 && foldEqual(c.args[2], "TYPE"):
		keep, ok := clientType(c.args[3])
		if !ok {
			c.fail("ERR Unknown client type '" + plainCut(c.args[3]) + "'")
			return
		}
		c.eachClient(func(other *session) {
			if keep(other) {
				line(other)
			}
		}, end)
	case len(c.args) >= 4 && foldEqual(c.args[2], "ID"):
		ids := make([]int64, 0, len(c.args)-3)
		for _, a := range c.args[3:] {
			id, ok := resp.ParseInt(a)
			if !ok || id < 1 {
				c.fail("ERR Invalid client ID")
				return
			}
			ids = append(ids, id)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		c.eachStep(len(ids), walkClients, nil, func(i int) {
			if other := c.srv.clients.find(ids[i]); other != nil {
				line(other)
			}
		}, end)
	default:
		c.fail(errSyntax)
	}
}

// clientType returns the test for a type of CLIENT LIST and KILL.
func clientType(word []byte) (keep func(*session) bool, ok bool) {
	switch {
	case foldEqual(word, "NORMAL"):
		return func(c *session) bool { return c.pub.subscribed.Load() == 0 }, true
	case foldEqual(word, "PUBSUB"):
		return func(c *session) bool { return c.pub.subscribed.Load() > 0 }, true
	case foldEqual(word, "MASTER"), foldEqual(word, "REPLICA"), foldEqual(word, "SLAVE"):
		return func(*session) bool { return false }, true
	}
	return nil, false
}

// clientKill has two forms: an address alone, or filters, all of which must hold.
func (c *call) clientKill() {
	if len(c.args) == 3 {
		addr := string(c.args[2])
		killed := (*session)(nil)
		c.eachClient(func(other *session) {
			if killed == nil && other.addr() == addr {
				killed = other
			}
		}, func() {
			switch killed {
			case nil:
				c.fail(errNoSuchClient)
			case c.client:
				c.ok()
				c.client.life.Drain(errKilled) // closed by finish, after the reply
			default:
				c.kill(killed)
				c.ok()
			}
		})
		return
	}
	skipMe := true
	var filters []func(*session) bool
	for i := 2; i < len(c.args); i += 2 {
		if i+1 == len(c.args) {
			c.fail(errSyntax)
			return
		}
		v := c.args[i+1]
		switch {
		case foldEqual(c.args[i], "SKIPME") && (foldEqual(v, "YES") || foldEqual(v, "NO")):
			skipMe = foldEqual(v, "YES")
			continue
		}
		f, text := killFilter(c.args[i], v, c.srv.clock.Now())
		if text != "" {
			c.fail(text)
			return
		}
		filters = append(filters, f)
	}
	killed, me := int64(0), false
	c.eachClient(func(other *session) {
		if (other == c.client && skipMe) || slices.ContainsFunc(filters, func(f func(*session) bool) bool { return !f(other) }) {
			return
		}
		killed++
		if me = me || other == c.client; other != c.client {
			c.kill(other)
		}
	}, func() {
		c.int(killed)
		if me {
			c.client.life.Drain(errKilled) // closed by finish, after the reply
		}
	})
}

// killFilter reads one filter of CLIENT KILL; text is the error to reply with.
func killFilter(word, v []byte, now int64) (f func(*session) bool, text string) {
	value := string(v)
	switch {
	case foldEqual(word, "ID"):
		id, ok := resp.ParseInt(v)
		if !ok || id < 1 {
			return nil, "ERR client-id should be greater than 0"
		}
		return func(c *session) bool { return c.id == id }, ""
	case foldEqual(word, "ADDR"):
		return func(c *session) bool { return c.addr() == value }, ""
	case foldEqual(word, "LADDR"):
		return func(c *session) bool { return addrText(c.conn.LocalAddr(), c.conn.LocalAddr()) == value }, ""
	case foldEqual(word, "USER"):
		if value != "default" {
			return nil, fmt.Sprintf(errNoSuchUser, plainCut(v))
		}
		return func(*session) bool { return true }, ""
	case foldEqual(word, "TYPE"):
		keep, ok := clientType(v)
		if !ok {
			return nil, "ERR Unknown client type '" + plainCut(v) + "'"
		}
		return keep, ""
	case foldEqual(word, "MAXAGE"):
		age, ok := resp.ParseInt(v)
		if !ok {
			return nil, "ERR maxage is not an integer or out of range"
		}
		if age < 1 {
			return nil, "ERR maxage should be greater than 0"
		}
		return func(c *session) bool { return (now-c.pub.created)/int64(time.Second) >= age }, ""
	}
	return nil, errSyntax
}

func (c *call) kill(other *session) {
	other.conn.Close(errKilled)
}

func (c *call) clientPause() {
	ms, ok := resp.ParseInt(c.args[2])
	switch {
	case !ok || ms > int64(365*24*time.Hour/time.Millisecond):
		c.fail(errTimeoutNotInt)
		return
	case ms < 0:
		c.fail(errTimeoutNegative)
		return
	}
	all := true
	switch {
	case len(c.args) == 3 || (len(c.args) == 4 && foldEqual(c.args[3], "ALL")):
	case len(c.args) == 4 && foldEqual(c.args[3], "WRITE"):
		all = false
	default:
		c.fail("ERR CLIENT PAUSE mode must be WRITE or ALL")
		return
	}
	c.srv.pause.start(c.now, c.now+ms*int64(time.Millisecond), all)
	c.ok()
}

func (c *call) clientReply() {
	switch {
	case foldEqual(c.args[2], "ON"):
		c.client.replies = replyOn
		c.ok()
	case foldEqual(c.args[2], "OFF"):
		c.client.replies = replyOff
	case foldEqual(c.args[2], "SKIP"):
		if c.client.replies != replyOff {
			c.client.replies = replySkip
		}
	default:
		c.fail(errReplyMode)
	}
}

func (c *call) clientNoEvict() {
	if on, ok := c.onOff(c.args[2]); ok {
		c.client.pub.noEvict.Store(on)
		c.ok()
	}
}

func onOffOnly(c *call) {
	if _, ok := c.onOff(c.args[2]); ok {
		c.ok()
	}
}

func (c *call) onOff(word []byte) (on, ok bool) {
	switch {
	case foldEqual(word, "ON"):
		return true, true
	case foldEqual(word, "OFF"):
		return false, true
	}
	c.fail(errSyntax)
	return false, false
}

func (c *call) clientUnblock() {
	var cause error
	switch {
	case len(c.args) == 3, len(c.args) == 4 && foldEqual(c.args[3], "TIMEOUT"):
	case len(c.args) == 4 && foldEqual(c.args[3], "ERROR"):
		cause = errWaitUnblocked
	case len(c.args) == 4:
		c.fail(errUnblockReason)
		return
	default:
		c.fail(errSyntax)
		return
	}
	id, err := strconv.ParseInt(string(c.args[2]), 10, 64)
	if err != nil {
		c.fail(errNotInt)
		return
	}
	if other := c.srv.clients.find(id); other != nil && other.unblock(c.now, cause) {
		c.int(1)
		return
	}
	c.int(0)
}
