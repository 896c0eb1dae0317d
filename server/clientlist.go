package server

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

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
func describe(s *session, now int64) string { return string(appendLine(nil, s, now)) }

// appendLine appends the connection's line of CLIENT LIST to b.
func appendLine(b []byte, s *session, now int64) []byte {
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
	queued, mem := p.buffered.Load(), s.pub.memory()
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

func clientInfo(c *call) {
	c.showQuery()
	c.Verbatim(describe(c.client, c.srv.clock.Now()) + "\n")
}

func clientList(c *call) {
	c.showQuery()
	var list []byte
	now := c.srv.clock.Now()
	line := func(other *session) {
		list = append(appendLine(list, other, now), '\n')
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

// connMemory is roughly the memory that the transport uses for a connection, in bytes.
const connMemory = 512

// clientMemory is the memory that the server holds for a client, in bytes.
type clientMemory struct {
	query     int64 // the buffer of input that has not run
	args      int64 // the command that a pause holds back, or that has yielded, with its results so far
	multi     int64 // its transaction
	texts     int64 // its names
	subs      int64 // its subscriptions
	held      int64 // replies that wait for the disk
	unsent    int64 // the buffers of replies that it has not read
	unsentIn  int64 // the number of these buffers
	connected int64 // the session itself
}

// memory returns the memory that the server holds for the client.
func (p *public) memory() clientMemory {
	buffers, unsent := p.conn.Queue()
	return clientMemory{
		query: p.queryMemory.Load(), args: p.argMemory.Load() + p.stepMemory.Load(), multi: p.multiMemory.Load(), texts: p.textMemory.Load(),
		subs: p.subBytes.Load(), held: p.owed.Load(), unsent: unsent, unsentIn: buffers,
		connected: int64(unsafe.Sizeof(session{})) + connMemory,
	}
}

// growing returns the part that a client can make larger, which maxmemory-clients bounds.
func (m *clientMemory) growing() int64 {
	return m.query + m.args + m.multi + m.texts + m.subs + m.held + m.unsent
}

// total returns tot-mem of CLIENT LIST.
func (m *clientMemory) total() int64 { return m.growing() + m.connected }

// holding returns the memory of the client that maxmemory-clients bounds.
func (p *public) holding() int64 {
	m := p.memory()
	return m.growing()
}

// addrText returns the peer's address as Redis shows it: for a unix socket, its path.
func addrText(remote, local net.Addr) string { return string(appendAddr(nil, remote, local)) }

func appendAddr(b []byte, remote, local net.Addr) []byte {
	if isUnix(local) {
		return append(append(b, local.String()...), ":0"...)
	}
	if tcp, ok := remote.(*net.TCPAddr); ok && tcp.Zone == "" {
		if ip, ok := netip.AddrFromSlice(tcp.IP); ok {
			return netip.AddrPortFrom(ip.Unmap(), uint16(tcp.Port)).AppendTo(b)
		}
	}
	if remote == nil {
		return append(b, "?:0"...)
	}
	return append(b, remote.String()...)
}

func isUnix(a net.Addr) bool {
	_, ok := a.(*net.UnixAddr)
	return ok
}

// isLocal reports whether the peer is on this machine.
func isLocal(remote net.Addr) bool {
	switch a := remote.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}

// The texts that a client sets about itself: its name, and its library's name and version.

// nameMost bounds each of these texts, in bytes.
const nameMost = 1024

// nameError returns the error if b cannot be one of these texts, or "". As in Redis, b must be
// printable ASCII without blanks; wrong is the error if it is not.
func nameError(b []byte, wrong string) string {
	if len(b) > nameMost {
		return errNameLong
	}
	for _, c := range b {
		if c < '!' || c > '~' {
			return wrong
		}
	}
	return ""
}

// storeText stores b, which nameError has accepted. An empty b removes the text.
func (p *public) storeText(to *atomic.Pointer[string], b []byte) {
	p.textMemory.Add(int64(len(b) - len(loadText(to))))
	if len(b) == 0 {
		to.Store(nil)
		return
	}
	text := string(b)
	to.Store(&text)
}

func loadText(from *atomic.Pointer[string]) string {
	if p := from.Load(); p != nil {
		return *p
	}
	return ""
}

func clientSetName(c *call) {
	c.client.fwd.close() // the next one says the name
	c.setText(&c.client.pub.name, c.Args[2], errClientName)
}

func clientGetName(c *call) {
	if name := loadText(&c.client.pub.name); name != "" {
		c.Text(name)
		return
	}
	c.Null()
}

func clientSetInfo(c *call) {
	switch {
	case resp.EqualFold(c.Args[2], "LIB-NAME"):
		c.setText(&c.client.pub.libName, c.Args[3], errLibName)
	case resp.EqualFold(c.Args[2], "LIB-VER"):
		c.setText(&c.client.pub.libVer, c.Args[3], errLibVer)
	default:
		c.Fail("ERR Unrecognized option '" + resp.Excerpt(c.Args[2]) + "'")
	}
}

// setText stores b and replies OK, or the error.
func (c *call) setText(to *atomic.Pointer[string], b []byte, wrong string) {
	if text := nameError(b, wrong); text != "" {
		c.Fail(text)
		return
	}
	c.client.pub.storeText(to, b)
	c.OK()
}
