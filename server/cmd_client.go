package server

import (
	"strconv"
	"time"

	"limitdb/resp"
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
		sub("ID", 2, spec.Fast, "Returns the connection's id.", func(c *call) { c.Int(c.client.id) }),
		sub("INFO", 2, 0, "Describes this connection.", (*call).clientInfo),
		sub("LIST", -2, spec.Admin, "Describes the connections.", (*call).clientList,
			spec.Optional(types),
			spec.Argument{Name: "client-id", Kind: "integer", Token: "ID", Optional: true, Multiple: true}),
		sub("SETNAME", 3, spec.Fast, "Names the connection.", (*call).clientSetName, spec.Text("connection-name")),
		sub("GETNAME", 2, spec.Fast, "Returns the connection's name.", (*call).clientGetName),
		sub("SETINFO", 4, spec.Fast, "Records the client library's name or version.", (*call).clientSetInfo, spec.Words("attr", "LIB-NAME", "LIB-VER"), spec.Text("value")),
		sub("KILL", -3, spec.Admin, "Closes connections.", (*call).clientKill, spec.Argument{Name: "filter", Kind: "oneof", Args: []spec.Argument{
			spec.Text("ip:port"),
			{Name: "filter", Kind: "oneof", Multiple: true, Args: []spec.Argument{
				filter("client-id", "ID"), types, filter("username", "USER"), filter("ip:port", "ADDR"), filter("ip:port", "LADDR"), skipMe, filter("maxage", "MAXAGE"),
			}},
		}}),
		sub("PAUSE", -3, spec.Admin, "Delays commands for a time.", (*call).clientPause,
			spec.Integer("timeout"), spec.OneOf("mode", spec.Word("WRITE"), spec.Word("ALL"))),
		sub("UNPAUSE", 2, spec.Admin, "Ends a pause.", func(c *call) {
			c.srv.pause.stop()
			c.OK()
		}),
		sub("REPLY", 3, spec.Fast, "Turns replies on or off, or skips the next one.", (*call).clientReply, spec.Words("on-off-skip", "ON", "OFF", "SKIP")),
		sub("NO-EVICT", 3, spec.Admin, "Keeps the connection open when others hold more than maxmemory-clients; those with NO-EVICT have as much to themselves.", (*call).clientNoEvict, onOff),
		sub("NO-TOUCH", 3, spec.Fast, "Accepted; reading a key never changes it.", onOffOnly, onOff),
		sub("TRACKING", -3, 0, "Turns on OPTIN, the only accepted mode of client-side caching; it caches nothing.", (*call).clientTracking,
			spec.Words("status", "ON", "OFF"),
			spec.Argument{Name: "client-id", Kind: "integer", Token: "REDIRECT", Optional: true},
			spec.Optional(spec.Word("OPTIN")), spec.Optional(spec.Word("NOLOOP"))),
		sub("TRACKINGINFO", 2, 0, "Describes what CLIENT TRACKING has set.", (*call).clientTrackingInfo),
		sub("CACHING", 3, spec.Fast, "Invalidates the keys of the next command at once, under CLIENT TRACKING ON OPTIN.", (*call).clientCaching, spec.Word("YES")),
		sub("GETREDIR", 2, spec.Fast, "Returns the id of the client that receives invalidations; 0: this one, -1: tracking is off.",
			func(c *call) { c.Int(c.client.pub.redirect.Load()) }),
		sub("UNBLOCK", -3, spec.Admin, "Ends another connection's wait; returns 1, or 0 if it does not wait.", (*call).clientUnblock,
			spec.Integer("client-id"), spec.OneOf("unblock-type", spec.Word("TIMEOUT"), spec.Word("ERROR"))),
	)
	client.Flags = spec.Conn
	return []row{client}
}

func (c *call) clientPause() {
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
	c.srv.pause.start(c.Now, c.Now+ms*int64(time.Millisecond), all)
	c.OK()
}

func (c *call) clientReply() {
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

func (c *call) clientNoEvict() {
	if on, ok := c.onOff(c.Args[2]); ok {
		c.client.exempt(on)
		c.OK()
	}
}

// exempt sets or ends CLIENT NO-EVICT.
func (s *session) exempt(on bool) {
	if s.pub.noEvict.Swap(on) == on {
		return
	}
	held := s.pub.accounted.Load()
	if !on {
		held = -held
	}
	s.srv.exemptBytes.Add(held)
}

func onOffOnly(c *call) {
	if _, ok := c.onOff(c.Args[2]); ok {
		c.OK()
	}
}

func (c *call) onOff(word []byte) (on, ok bool) {
	switch {
	case resp.EqualFold(word, "ON"):
		return true, true
	case resp.EqualFold(word, "OFF"):
		return false, true
	}
	c.Fail(spec.ErrSyntax)
	return false, false
}

func (c *call) clientUnblock() {
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
	if other := c.srv.clients.find(id); other != nil && other.unblock(c.Now, cause) {
		c.Int(1)
		return
	}
	c.Int(0)
}
