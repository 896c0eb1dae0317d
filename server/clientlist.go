package server

import (
	"slices"
	"strconv"
	"time"

	"limitdb/resp"
	"limitdb/server/pubsub"
	"limitdb/server/spec"
)

// CLIENT LIST and CLIENT INFO.

// lineOf is a line of CLIENT LIST being written.
type lineOf []byte

func (l *lineOf) int(name string, n int64) { *l = strconv.AppendInt(append(*l, name...), n, 10) }

func (l *lineOf) text(name, value string) { *l = append(append(*l, name...), value...) }

// describe returns the connection's line of CLIENT LIST.
func (s *session) describe(now int64) string { return string(s.appendLine(nil, now)) }

// appendLine appends the connection's line of CLIENT LIST to b.
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
		{p.queued.Load() > 0, 'x'},
		{p.parked.Load(), 'b'},
		{p.redirect.Load() >= 0, 't'},
		{isUnix(local), 'U'},
		{p.noEvict.Load(), 'e'},
	} {
		if f.on {
			l = append(l, f.flag)
		}
	}
	if len(l) == none {
		l = append(l, 'N')
	}
	subs := s.subs.Counts()
	l.int(" db=0 sub=", int64(subs[pubsub.Channel]))
	l.int(" psub=", int64(subs[pubsub.Pattern]))
	l.int(" ssub=", int64(subs[pubsub.Shard]))
	queued, mem := p.buffered.Load(), s.memory()
	l.int(" multi=", int64(p.queued.Load())-1)
	l.int(" watch=", int64(p.watched.Load()))
	l.int(" qbuf=", queued)
	l.int(" qbuf-free=", max(0, mem.query-queued))
	l.int(" argv-mem=", mem.args)
	l.int(" multi-mem=", mem.multi)
	l.int(" rbs=0 rbp=0 obl=", mem.held)
	l.int(" oll=", mem.unsentIn)
	l.int(" omem=", mem.unsent)
	l.int(" tot-mem=", mem.total())
	cmd := "NULL"
	if c := p.lastCmd.Load(); c != nil {
		cmd = c.Full
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

// showQuery has CLIENT LIST show what the client that asks has sent: this command, and what follows.
func (c *call) showQuery() {
	if s := c.client; s != nil {
		s.pub.buffered.Store(int64(s.rd.Size() + s.rd.Buffered()))
	}
}

func (c *call) clientInfo() {
	c.showQuery()
	c.Verbatim(c.client.describe(c.srv.clock.Now()) + "\n")
}

func (c *call) clientList() {
	c.showQuery()
	var list []byte
	now := c.srv.clock.Now()
	line := func(other *session) {
		list = append(other.appendLine(list, now), '\n')
		c.Holds = int64(cap(list))
	}
	end := func() { c.Verbatim(string(list)) }
	switch {
	case len(c.Args) == 2:
		c.eachClient(line, end)
	case len(c.Args) == 4 && resp.EqualFold(c.Args[2], "TYPE"):
		keep, text := clientType(c.Args[3])
		if text != "" {
			c.Fail(text)
			return
		}
		c.eachClient(func(other *session) {
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
		c.EachStep(len(ids), walkClients, nil, func(i int) {
			if other := c.srv.clients.find(ids[i]); other != nil {
				line(other)
			}
		}, end)
	default:
		c.Fail(spec.ErrSyntax)
	}
}

// clientType returns the filter for a client type of CLIENT LIST and KILL. If there is no such type, text is the error.
func clientType(word []byte) (keep func(*session) bool, text string) {
	switch {
	case resp.EqualFold(word, "NORMAL"):
		return func(c *session) bool { return c.pub.subscribed.Load() == 0 }, ""
	case resp.EqualFold(word, "PUBSUB"):
		return func(c *session) bool { return c.pub.subscribed.Load() > 0 }, ""
	case resp.EqualFold(word, "MASTER"), resp.EqualFold(word, "REPLICA"), resp.EqualFold(word, "SLAVE"):
		return func(*session) bool { return false }, ""
	}
	return nil, "ERR Unknown client type '" + resp.Excerpt(word) + "'"
}
