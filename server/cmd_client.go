package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"limitdb/resp"
)

// CLIENT and its subcommands.
func clientCommands() []command {
	sub := func(name string, arity int, f flags, summary string, run func(*session, [][]byte), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f | flagLoading | flagStale | flagConn, group: "connection", since: "1.0.0",
			complexity: "O(1)", summary: summary, args: args, run: run,
		}
	}
	str := func(name string) argument { return argument{name: name, kind: "string"} }
	opt := func(a argument) argument { a.optional = true; return a }
	return []command{{
		name: "CLIENT", arity: -2, flags: flagConn, group: "connection", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "A container for commands about connections.",
		subs: []command{
			sub("ID", 2, flagFast, "Replies the connection's id.", func(s *session, _ [][]byte) { s.int(s.id) }),
			sub("INFO", 2, 0, "Describes this connection.", func(s *session, _ [][]byte) { s.verbatim(s.describe() + "\n") }),
			sub("LIST", -2, flagAdmin, "Describes the connections.", (*session).clientList,
				argument{name: "client-type", kind: "string", token: "TYPE", optional: true},
				argument{name: "client-id", kind: "integer", token: "ID", optional: true, multiple: true}),
			sub("SETNAME", 3, flagFast, "Names the connection.", (*session).clientSetName, str("connection-name")),
			sub("GETNAME", 2, flagFast, "Replies the connection's name.", (*session).clientGetName),
			sub("SETINFO", 4, flagFast, "Records the client library's name or version.", (*session).clientSetInfo, str("attr"), str("value")),
			sub("KILL", -3, flagAdmin, "Closes connections.", (*session).clientKill, argument{name: "filter", kind: "string", multiple: true}),
			sub("PAUSE", -3, flagAdmin, "Holds commands back for a time.", (*session).clientPause,
				argument{name: "timeout", kind: "integer"}, opt(argument{name: "mode", kind: "oneof", args: []argument{
					{name: "write", kind: "pure-token", token: "WRITE"}, {name: "all", kind: "pure-token", token: "ALL"},
				}})),
			sub("UNPAUSE", 2, flagAdmin, "Ends a pause.", func(s *session, _ [][]byte) {
				s.srv.pause.stop()
				s.ok()
			}),
			sub("REPLY", 3, flagFast, "Turns replies on, off, or skips the next one.", (*session).clientReply, str("on-off-skip")),
			sub("NO-EVICT", 3, flagAdmin, "Exempts the connection from maxmemory-clients.", (*session).clientNoEvict, str("on-off")),
			sub("NO-TOUCH", 3, flagFast, "Accepted; reading a key never changes it.", onOffOnly, str("on-off")),
			noted(trackingNotes, sub("TRACKING", -3, 0, "Turns on the one mode of client-side caching that caches nothing.", (*session).clientTracking,
				argument{name: "status", kind: "oneof", args: []argument{
					{name: "on", kind: "pure-token", token: "ON"}, {name: "off", kind: "pure-token", token: "OFF"},
				}},
				argument{name: "client-id", kind: "integer", token: "REDIRECT", optional: true},
				argument{name: "optin", kind: "pure-token", token: "OPTIN", optional: true},
				argument{name: "noloop", kind: "pure-token", token: "NOLOOP", optional: true})),
			sub("TRACKINGINFO", 2, 0, "Describes what CLIENT TRACKING has set.", (*session).clientTrackingInfo),
			sub("CACHING", 3, flagFast, "Has the keys of the next command invalidated at once, under CLIENT TRACKING ON OPTIN.", (*session).clientCaching,
				argument{name: "yes", kind: "pure-token", token: "YES"}),
			sub("GETREDIR", 2, flagFast, "Replies the id of the client that invalidations go to; 0: to this one, -1: tracking is off.",
				func(s *session, _ [][]byte) { s.int(s.pub.redirect.Load()) }),
			noted(unblockNotes, sub("UNBLOCK", -3, flagAdmin, "Ends another connection's wait for its turn; replies 1, or 0 if it does not wait.", (*session).clientUnblock,
				argument{name: "client-id", kind: "integer"}, opt(argument{name: "unblock-type", kind: "oneof", args: []argument{
					{name: "timeout", kind: "pure-token", token: "TIMEOUT"}, {name: "error", kind: "pure-token", token: "ERROR"},
				}}))),
			sub("HELP", 2, 0, "Lists the subcommands.", (*session).help),
		},
	}}
}

// help lists the subcommands of the container that was called.
func (s *session) help(args [][]byte) {
	c := s.srv.table.find(args[0])
	lines := []string{c.name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for i := range c.subs {
		syntax := c.subs[i].appendSyntax(nil)
		lines = append(lines, string(syntax[len(c.name)+1:]), "    "+c.subs[i].summary)
	}
	s.array(len(lines))
	for _, l := range lines {
		s.simple(l)
	}
}

// describe is the connection's line of CLIENT LIST.
func (s *session) describe() string {
	p := &s.pub
	flagsText := ""
	for _, f := range []struct {
		on   bool
		flag string
	}{
		{p.monitor.Load(), "O"},
		{p.subscribed.Load() > 0, "P"},
		{p.parked.Load(), "b"},
		{p.redirect.Load() >= 0, "t"},
		{p.noEvict.Load(), "e"},
	} {
		if f.on {
			flagsText += f.flag
		}
	}
	if isUnix(s.conn.LocalAddr()) {
		flagsText += "U"
	}
	if flagsText == "" {
		flagsText = "N"
	}
	cmd := "NULL"
	if c := p.lastCmd.Load(); c != nil {
		cmd = c.fullName()
	}
	version := 2
	if p.resp3.Load() {
		version = 3
	}
	now := s.srv.clock.Now()
	queued, mem := p.buffered.Load(), s.memory()
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=0 sub=%d psub=%d ssub=%d multi=-1 watch=0 "+
		"qbuf=%d qbuf-free=%d argv-mem=%d multi-mem=0 rbs=0 rbp=0 obl=%d oll=%d omem=%d tot-mem=%d events=r cmd=%s user=default redir=%d resp=%d lib-name=%s lib-ver=%s",
		s.id, s.addr(), addrText(s.conn.LocalAddr(), s.conn.LocalAddr()), s.conn.FD(), loadText(&p.name),
		(now-p.created)/int64(time.Second), max(0, now-p.lastActive.Load())/int64(time.Second), flagsText,
		len(s.subs.list(subChannel)), len(s.subs.list(subPattern)), len(s.subs.list(subShard)),
		queued, max(0, mem.query-queued), mem.args, mem.held, mem.unsentIn, mem.unsent, mem.total(), cmd, p.redirect.Load(), version, loadText(&p.libName), loadText(&p.libVer))
}

func (s *session) clientList(args [][]byte) {
	all := s.srv.clients.snapshot(nil)
	switch {
	case len(args) == 2:
	case len(args) == 4 && foldEqual(args[2], "TYPE"):
		keep, ok := clientType(args[3])
		if !ok {
			s.fail("ERR Unknown client type '" + plainCut(args[3]) + "'")
			return
		}
		all = slices.DeleteFunc(all, func(c *session) bool { return !keep(c) })
	case len(args) >= 4 && foldEqual(args[2], "ID"):
		ids := make(map[int64]bool)
		for _, a := range args[3:] {
			id, ok := resp.ParseInt(a)
			if !ok || id < 1 {
				s.fail("ERR Invalid client ID")
				return
			}
			ids[id] = true
		}
		all = slices.DeleteFunc(all, func(c *session) bool { return !ids[c.id] })
	default:
		s.fail(errSyntax)
		return
	}
	slices.SortFunc(all, func(a, b *session) int { return int(a.id - b.id) })
	var b strings.Builder
	for _, c := range all {
		b.WriteString(c.describe())
		b.WriteByte('\n')
	}
	s.verbatim(b.String())
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
func (s *session) clientKill(args [][]byte) {
	if len(args) == 3 {
		addr := string(args[2])
		for _, c := range s.srv.clients.snapshot(nil) {
			switch {
			case c.addr() != addr:
				continue
			case c == s:
				s.ok()
				s.closeAfterReply(errKilled)
			default:
				s.kill(c)
				s.ok()
			}
			return
		}
		s.fail(errNoSuchClient)
		return
	}
	skipMe := true
	var filters []func(*session) bool
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			s.fail(errSyntax)
			return
		}
		v := args[i+1]
		switch {
		case foldEqual(args[i], "SKIPME") && (foldEqual(v, "YES") || foldEqual(v, "NO")):
			skipMe = foldEqual(v, "YES")
			continue
		}
		f, text := killFilter(args[i], v, s.srv.clock.Now())
		if text != "" {
			s.fail(text)
			return
		}
		filters = append(filters, f)
	}
	killed := int64(0)
	for _, c := range s.srv.clients.snapshot(nil) {
		if (c == s && skipMe) || slices.ContainsFunc(filters, func(f func(*session) bool) bool { return !f(c) }) {
			continue
		}
		killed++
		if c != s {
			s.kill(c)
			continue
		}
		defer s.closeAfterReply(errKilled)
	}
	s.int(killed)
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

func (s *session) kill(c *session) {
	c.conn.Close(errKilled)
}

func (s *session) clientPause(args [][]byte) {
	ms, ok := resp.ParseInt(args[2])
	switch {
	case !ok || ms > int64(365*24*time.Hour/time.Millisecond):
		s.fail(errTimeoutNotInt)
		return
	case ms < 0:
		s.fail(errTimeoutNegative)
		return
	}
	all := true
	switch {
	case len(args) == 3 || (len(args) == 4 && foldEqual(args[3], "ALL")):
	case len(args) == 4 && foldEqual(args[3], "WRITE"):
		all = false
	default:
		s.fail("ERR CLIENT PAUSE mode must be WRITE or ALL")
		return
	}
	s.srv.pause.start(s.now, s.now+ms*int64(time.Millisecond), all)
	s.ok()
}

func (s *session) clientReply(args [][]byte) {
	switch {
	case foldEqual(args[2], "ON"):
		s.replies = replyOn
		s.ok()
	case foldEqual(args[2], "OFF"):
		s.replies = replyOff
	case foldEqual(args[2], "SKIP"):
		if s.replies != replyOff {
			s.replies = replySkip
		}
	default:
		s.fail(errReplyMode)
	}
}

func (s *session) clientNoEvict(args [][]byte) {
	if on, ok := s.onOff(args[2]); ok {
		s.pub.noEvict.Store(on)
		s.ok()
	}
}

func onOffOnly(s *session, args [][]byte) {
	if _, ok := s.onOff(args[2]); ok {
		s.ok()
	}
}

func (s *session) onOff(word []byte) (on, ok bool) {
	switch {
	case foldEqual(word, "ON"):
		return true, true
	case foldEqual(word, "OFF"):
		return false, true
	}
	s.fail(errSyntax)
	return false, false
}

func (s *session) clientUnblock(args [][]byte) {
	var cause error
	switch {
	case len(args) == 3, len(args) == 4 && foldEqual(args[3], "TIMEOUT"):
	case len(args) == 4 && foldEqual(args[3], "ERROR"):
		cause = errWaitUnblocked
	case len(args) == 4:
		s.fail(errUnblockReason)
		return
	default:
		s.fail(errSyntax)
		return
	}
	id, err := strconv.ParseInt(string(args[2]), 10, 64)
	if err != nil {
		s.fail(errNotInt)
		return
	}
	if c := s.srv.clients.find(id); c != nil && c.unblock(s.now, cause) {
		s.int(1)
		return
	}
	s.int(0)
}
