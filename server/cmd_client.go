package server

import (
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
