package server

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// CLIENT and its subcommands.
func clientRows() []row {
	sub := handler.Rows[call]("connection", "O(1)", spec.Loading|spec.Stale|spec.Conn|spec.Client)
	onOff := spec.Words("enabled", "ON", "OFF")
	types := spec.Words("client-type", "NORMAL", "MASTER", "SLAVE", "REPLICA", "PUBSUB")
	types.Token = "TYPE"
	filter := func(name, token string) spec.Argument {
		return spec.Argument{Name: name, Kind: "string", Token: token}
	}
	skipMe := spec.Words("skipme", "YES", "NO")
	skipMe.Token = "SKIPME"
	client := handler.Container("CLIENT", "connection", "A container for commands about connections.",
		sub("ID", 2, spec.Fast, "Returns the connection's id.", func(c *call) { c.Int(c.client.pub.ID) }),
		sub("INFO", 2, 0, "Describes this connection.", clientInfo),
		sub("LIST", -2, spec.Admin, "Describes the connections.", clientList,
			spec.Optional(types),
			spec.Argument{Name: "client-id", Kind: "integer", Token: "ID", Optional: true, Multiple: true}),
		sub("SETNAME", 3, spec.Fast, "Names the connection.", clientSetName, spec.Text("connection-name")),
		sub("GETNAME", 2, spec.Fast, "Returns the connection's name.", clientGetName),
		sub("SETINFO", 4, spec.Fast, "Records the client library's name or version.", clientSetInfo, spec.Words("attr", "LIB-NAME", "LIB-VER"), spec.Text("value")),
		sub("KILL", -3, spec.Admin, "Closes connections.", clientKill, spec.Argument{Name: "filter", Kind: "oneof", Args: []spec.Argument{
			spec.Text("ip:port"),
			{Name: "filter", Kind: "oneof", Multiple: true, Args: []spec.Argument{
				filter("client-id", "ID"), types, filter("username", "USER"), filter("ip:port", "ADDR"), filter("ip:port", "LADDR"), skipMe, filter("maxage", "MAXAGE"),
			}},
		}}),
		sub("PAUSE", -3, spec.Admin, "Delays commands for a time.", clientPause,
			spec.Integer("timeout"), spec.OneOf("mode", spec.Word("WRITE"), spec.Word("ALL"))),
		sub("UNPAUSE", 2, spec.Admin, "Ends a pause.", func(c *call) {
			c.srv.pause.Stop()
			c.OK()
		}),
		sub("REPLY", 3, spec.Fast|spec.NoMulti, "Turns replies on or off, or skips the next one.", clientReply, spec.Words("on-off-skip", "ON", "OFF", "SKIP")),
		sub("NO-EVICT", 3, spec.Admin, "Keeps the connection open when others hold more than maxmemory-clients; those with NO-EVICT have as much to themselves.", clientNoEvict, onOff),
		sub("NO-TOUCH", 3, spec.Fast, "Accepted; reading a key never changes it.", onOffOnly, onOff),
		sub("TRACKING", -3, 0, "Turns on OPTIN, the only accepted mode of client-side caching; it caches nothing.", clientTracking,
			spec.Words("status", "ON", "OFF"), spec.Optional(spec.Word("OPTIN"))),
		sub("CACHING", 3, spec.Fast, "Invalidates the keys of the next command at once, under CLIENT TRACKING ON OPTIN.", clientCaching, spec.Word("YES")),
		sub("UNBLOCK", -3, spec.Admin, "Ends another connection's wait; returns 1, or 0 if it does not wait.", clientUnblock,
			spec.Integer("client-id"), spec.OneOf("unblock-type", spec.Word("TIMEOUT"), spec.Word("ERROR"))),
	)
	client.Flags = spec.Conn
	return []row{client}
}

// showQuery has CLIENT LIST show what the client that asks has sent: this command, and what follows.
func showQuery(c *call) {
	if s := c.client; s != nil {
		s.pub.Buffered.Store(int64(s.rd.Size() + s.rd.Buffered()))
	}
}

func clientInfo(c *call) {
	showQuery(c)
	c.Verbatim(string(c.client.pub.AppendLine(nil, c.srv.clock.Now())) + "\n")
}

func clientList(c *call) {
	showQuery(c)
	var list []byte
	now := c.srv.clock.Now()
	line := func(other *clients.Client) {
		list = append(other.AppendLine(list, now), '\n')
		c.Holds = int64(cap(list))
	}
	end := func() { c.Verbatim(string(list)) }
	switch {
	case len(c.Args) == 2:
		c.srv.clients.Walk(c.inner(), clients.Few, line, end)
	case len(c.Args) == 4 && resp.EqualFold(c.Args[2], "TYPE"):
		keep, text := clientType(c.Args[3])
		if text != "" {
			c.Fail(text)
			return
		}
		c.srv.clients.Walk(c.inner(), clients.Few, func(other *clients.Client) {
			if keep(other) {
				line(other)
			}
		}, end)
	case len(c.Args) >= 4 && resp.EqualFold(c.Args[2], "ID"):
		ids := make([]int64, 0, len(c.Args)-3)
		for _, a := range c.Args[3:] {
			id, ok := resp.ParseInt(a)
			if !ok || id < 1 {
				c.Fail("ERR Invalid client ID")
				return
			}
			ids = append(ids, id)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		c.EachStep(len(ids), clients.Few, nil, func(i int) {
			if other := c.srv.clients.Find(ids[i]); other != nil {
				line(other)
			}
		}, end)
	default:
		c.Fail(spec.ErrSyntax)
	}
}

// clientType returns the filter for a client type of CLIENT LIST and KILL. If there is no such type, text is the error.
func clientType(word []byte) (keep func(*clients.Client) bool, text string) {
	switch {
	case resp.EqualFold(word, "NORMAL"):
		return func(c *clients.Client) bool { return c.SubCount() == 0 }, ""
	case resp.EqualFold(word, "PUBSUB"):
		return func(c *clients.Client) bool { return c.SubCount() > 0 }, ""
	case resp.EqualFold(word, "MASTER"), resp.EqualFold(word, "REPLICA"), resp.EqualFold(word, "SLAVE"):
		return func(*clients.Client) bool { return false }, ""
	}
	return nil, "ERR Unknown client type '" + resp.Excerpt(word) + "'"
}

func clientSetName(c *call) {
	c.client.fwd.close() // the next one says the name
	setText(c, &c.client.pub.Name, c.Args[2], errClientName)
}

func clientGetName(c *call) {
	if name := c.client.pub.Name.String(); name != "" {
		c.Text(name)
		return
	}
	c.Null()
}

func clientSetInfo(c *call) {
	switch {
	case resp.EqualFold(c.Args[2], "LIB-NAME"):
		setText(c, &c.client.pub.LibName, c.Args[3], errLibName)
	case resp.EqualFold(c.Args[2], "LIB-VER"):
		setText(c, &c.client.pub.LibVer, c.Args[3], errLibVer)
	default:
		c.Fail("ERR Unrecognized option '" + resp.Excerpt(c.Args[2]) + "'")
	}
}

// setText stores what the client says about itself and replies OK, or the error.
func setText(c *call, to *clients.Text, b []byte, wrong string) {
	if text := c.client.pub.Say(to, b, wrong); text != "" {
		c.Fail(text)
		return
	}
	c.OK()
}

func clientPause(c *call) {
	ms, ok := resp.ParseInt(c.Args[2])
	switch {
	case !ok || ms > int64(365*24*time.Hour/time.Millisecond):
		c.Fail(errTimeoutNotInt)
		return
	case ms < 0:
		c.Fail(errTimeoutNegative)
		return
	}
	all := true
	switch {
	case len(c.Args) == 3 || (len(c.Args) == 4 && resp.EqualFold(c.Args[3], "ALL")):
	case len(c.Args) == 4 && resp.EqualFold(c.Args[3], "WRITE"):
		all = false
	default:
		c.Fail("ERR CLIENT PAUSE mode must be WRITE or ALL")
		return
	}
	c.srv.pause.Start(c.Began, c.Began+ms*int64(time.Millisecond), all)
	c.OK()
}

func clientReply(c *call) {
	switch {
	case resp.EqualFold(c.Args[2], "ON"):
		c.client.replies = replyOn
		c.OK()
	case resp.EqualFold(c.Args[2], "OFF"):
		c.client.replies = replyOff
	case resp.EqualFold(c.Args[2], "SKIP"):
		if c.client.replies != replyOff {
			c.client.replies = replySkip
		}
	default:
		c.Fail(errReplyMode)
	}
}

func clientNoEvict(c *call) {
	if on, ok := onOff(c, c.Args[2]); ok {
		c.client.pub.Exempt(on)
		c.OK()
	}
}

func onOffOnly(c *call) {
	if _, ok := onOff(c, c.Args[2]); ok {
		c.OK()
	}
}

func onOff(c *call, word []byte) (on, ok bool) {
	switch {
	case resp.EqualFold(word, "ON"):
		return true, true
	case resp.EqualFold(word, "OFF"):
		return false, true
	}
	c.Fail(spec.ErrSyntax)
	return false, false
}

func clientUnblock(c *call) {
	var cause error
	switch {
	case len(c.Args) == 3, len(c.Args) == 4 && resp.EqualFold(c.Args[3], "TIMEOUT"):
	case len(c.Args) == 4 && resp.EqualFold(c.Args[3], "ERROR"):
		cause = errWaitUnblocked
	case len(c.Args) == 4:
		c.Fail(errUnblockReason)
		return
	default:
		c.Fail(spec.ErrSyntax)
		return
	}
	id, err := strconv.ParseInt(string(c.Args[2]), 10, 64)
	if err != nil {
		c.Fail(spec.ErrNotInt)
		return
	}
	if other := c.srv.clients.Find(id); other != nil && other.Unblock(c.Began, cause) {
		c.Int(1)
		return
	}
	c.Int(0)
}

// clientKill accepts either an address alone or filters, all of which must match.
func clientKill(c *call) {
	words, alone := c.Args[2:], len(c.Args) == 3
	if alone {
		words = [][]byte{[]byte("ADDR"), c.Args[2], []byte("SKIPME"), []byte("NO")}
	}
	skipMe := true
	var filters []func(*clients.Client) bool
	for ; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			c.Fail(spec.ErrSyntax)
			return
		}
		v := words[1]
		if resp.EqualFold(words[0], "SKIPME") && (resp.EqualFold(v, "YES") || resp.EqualFold(v, "NO")) {
			skipMe = resp.EqualFold(v, "YES")
			continue
		}
		f, text := killFilter(words[0], v, c.srv.clock.Now(), func(name string) bool { return c.srv.auth.Get(name) != nil })
		if text != "" {
			c.Fail(text)
			return
		}
		filters = append(filters, f)
	}
	killed, me := int64(0), false
	c.srv.clients.Walk(c.inner(), max(1, clients.Few/max(1, len(filters))), func(other *clients.Client) {
		if alone && killed == 1 || skipMe && other == &c.client.pub || slices.ContainsFunc(filters, func(f func(*clients.Client) bool) bool { return !f(other) }) {
			return
		}
		killed++
		if me = me || other == &c.client.pub; other != &c.client.pub {
			other.Conn.Close(clients.ErrKilled)
		}
	}, func() {
		switch {
		case !alone:
			c.Int(killed)
		case killed == 0:
			c.Fail(errNoSuchClient)
		default:
			c.OK()
		}
		if me {
			c.client.life.Drain(clients.ErrKilled)
		}
	})
}

// killFilter parses one filter of CLIENT KILL. If it fails, text is the error to reply with.
func killFilter(word, v []byte, now int64, isUser func(name string) bool) (f func(*clients.Client) bool, text string) {
	value := string(v)
	switch {
	case resp.EqualFold(word, "ID"):
		id, ok := resp.ParseInt(v)
		if !ok || id < 1 {
			return nil, "ERR client-id should be greater than 0"
		}
		return func(c *clients.Client) bool { return c.ID == id }, ""
	case resp.EqualFold(word, "ADDR"):
		return func(c *clients.Client) bool { return c.Addr() == value }, ""
	case resp.EqualFold(word, "LADDR"):
		return func(c *clients.Client) bool { return clients.AddrText(c.Conn.LocalAddr(), c.Conn.LocalAddr()) == value }, ""
	case resp.EqualFold(word, "USER"):
		if !isUser(value) {
			return nil, fmt.Sprintf(errNoSuchUser, resp.Excerpt(v))
		}
		return func(c *clients.Client) bool { return c.UserName() == value }, ""
	case resp.EqualFold(word, "TYPE"):
		return clientType(v)
	case resp.EqualFold(word, "MAXAGE"):
		age, ok := resp.ParseInt(v)
		if !ok {
			return nil, "ERR maxage is not an integer or out of range"
		}
		if age < 1 {
			return nil, "ERR maxage should be greater than 0"
		}
		return func(c *clients.Client) bool { return c.Age(now)/int64(time.Second) >= age }, ""
	}
	return nil, spec.ErrSyntax
}

// CLIENT TRACKING. limitdb does not remember which client has read which key, and a decision changes its key anyway, so clients must not
// cache anything. Of Redis' modes it can honor only OPTIN: a client caches only the keys that it announces by CLIENT CACHING YES, and the
// server tells it at once, by a push of RESP3, that they have changed.

func clientTracking(c *call) {
	on, optIn := resp.EqualFold(c.Args[2], "ON"), len(c.Args) == 4 && resp.EqualFold(c.Args[3], "OPTIN")
	switch {
	case on && optIn:
		track(c.client, true)
	case on:
		c.Fail(errTrackingNever)
		return
	case resp.EqualFold(c.Args[2], "OFF") && (optIn || len(c.Args) == 3):
		track(c.client, false)
	default:
		c.Fail(spec.ErrSyntax)
		return
	}
	c.OK()
}

// track turns tracking on or off.
func track(s *session, on bool) {
	s.tracking, s.caching = on, false
	s.pub.SetTracking(on)
}

func clientCaching(c *call) {
	switch {
	case !c.client.tracking:
		c.Fail(errCachingOff)
	case resp.EqualFold(c.Args[2], "YES"):
		c.client.caching = true
		c.OK()
	case resp.EqualFold(c.Args[2], "NO"):
		c.Fail(errCachingNo)
	default:
		c.Fail(spec.ErrSyntax)
	}
}

// readBy returns the keys of a command, those of the whole transaction for EXEC.
func readBy(s *session, args [][]byte) (keys [][]byte) {
	cmd, text := s.srv.table.resolve(args)
	switch {
	case cmd == nil || text != "":
	case cmd.Name == "EXEC" && s.multi.isOpen():
		for _, q := range s.multi.queued {
			q.cmd.Keys(q.args, func(i int) { keys = append(keys, bytes.Clone(q.args[i])) })
		}
	default:
		cmd.Keys(args, func(i int) { keys = append(keys, args[i]) })
	}
	return keys
}

// invalidate tells the client, after the reply to the command of that name, not to cache the keys that it has
// read. As in Redis, CLIENT CACHING applies to the next command other than CLIENT, or to a transaction.
func invalidate(s *session, name []byte, keys [][]byte) {
	if resp.EqualFold(name, "CLIENT") || s.multi.isOpen() {
		return
	}
	s.caching = false
	if len(keys) == 0 {
		return
	}
	if s.call.Proto != resp.RESP3 {
		return
	}
	b := resp.AppendPush(nil, resp.RESP3, 2)
	b = resp.AppendBulkString(b, "invalidate")
	b = resp.AppendCommand(b, keys...) // an array of them
	if s.pending != nil {
		s.after = b
		return
	}
	s.call.Out = append(s.call.Out, b...)
}
