package clients

import (
	"net"
	"net/netip"
	"strconv"
	"time"

	"limitdb/server/pubsub"
)

// lineOf is a line of CLIENT LIST being written.
type lineOf []byte

func (l *lineOf) int(name string, n int64) { *l = strconv.AppendInt(append(*l, name...), n, 10) }

func (l *lineOf) text(name, value string) { *l = append(append(*l, name...), value...) }

// AppendLine appends the client's line of CLIENT LIST at now to b.
func (c *Client) AppendLine(b []byte, now int64) []byte {
	l := lineOf(b)
	local := c.Conn.LocalAddr()
	l.int("id=", c.ID)
	l = appendAddr(append(l, " addr="...), c.Conn.RemoteAddr(), local)
	l = appendAddr(append(l, " laddr="...), local, local)
	l.int(" fd=", int64(c.Conn.FD()))
	l.text(" name=", c.Name.String())
	l.int(" age=", c.Age(now)/int64(time.Second))
	l.int(" idle=", max(0, now-c.LastActive.Load())/int64(time.Second))
	l = append(l, " flags="...)
	none := len(l)
	for _, f := range [...]struct {
		on   bool
		flag byte
	}{
		{c.Monitor.Load(), 'O'},
		{c.SubCount() > 0, 'P'},
		{c.Queued.Load() > 0, 'x'},
		{c.Parked(), 'b'},
		{c.Tracks.Load(), 't'},
		{IsUnix(local), 'U'},
		{c.noEvict.Load(), 'e'},
	} {
		if f.on {
			l = append(l, f.flag)
		}
	}
	if len(l) == none {
		l = append(l, 'N')
	}
	subs := c.Subs.Counts()
	l.int(" db=0 sub=", int64(subs[pubsub.Channel]))
	l.int(" psub=", int64(subs[pubsub.Pattern]))
	l.int(" ssub=", int64(subs[pubsub.Shard]))
	queued, mem := c.Buffered.Load(), c.Memory()
	l.int(" multi=", int64(c.Queued.Load())-1)
	l.int(" watch=", int64(c.watched.Load()))
	l.int(" qbuf=", queued)
	l.int(" qbuf-free=", max(0, mem.Query-queued))
	l.int(" argv-mem=", mem.Args)
	l.int(" multi-mem=", mem.Multi)
	l.int(" rbs=0 rbp=0 obl=", mem.Owed)
	l.int(" oll=", mem.UnsentIn)
	l.int(" omem=", mem.Unsent)
	l.int(" tot-mem=", mem.total())
	cmd := "NULL"
	if last := c.LastCmd.Load(); last != nil {
		cmd = last.Full
	}
	l.text(" events=r cmd=", cmd)
	version, redirect := int64(2), int64(-1)
	if c.Tracks.Load() {
		redirect = 0 // to itself
	}
	if c.RESP3.Load() {
		version = 3
	}
	l.text(" user=", c.UserName())
	l.int(" redir=", redirect)
	l.int(" resp=", version)
	l.text(" lib-name=", c.LibName.String())
	l.text(" lib-ver=", c.LibVer.String())
	return l
}

// AddrText returns the peer's address as Redis shows it: for a unix socket, its path.
func AddrText(remote, local net.Addr) string { return string(appendAddr(nil, remote, local)) }

func appendAddr(b []byte, remote, local net.Addr) []byte {
	if IsUnix(local) {
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

// IsUnix reports whether an address is that of a unix socket.
func IsUnix(a net.Addr) bool {
	_, ok := a.(*net.UnixAddr)
	return ok
}

// IsLocal reports whether the peer is on this machine.
func IsLocal(remote net.Addr) bool {
	switch a := remote.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}
