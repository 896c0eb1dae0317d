package server

import (
	"fmt"
	"slices"
	"time"

	"limitdb/resp"
	"limitdb/server/spec"
)

// clientKill accepts either an address alone or filters, all of which must match.
func (c *call) clientKill() {
	words, alone := c.Args[2:], len(c.Args) == 3
	if alone {
		words = [][]byte{[]byte("ADDR"), c.Args[2], []byte("SKIPME"), []byte("NO")}
	}
	skipMe := true
	var filters []func(*session) bool
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
		f, text := killFilter(words[0], v, c.srv.clock.Now())
		if text != "" {
			c.Fail(text)
			return
		}
		filters = append(filters, f)
	}
	killed, me := int64(0), false
	c.fewClients(max(1, walkClients/max(1, len(filters))), func(other *session) {
		if alone && killed == 1 || skipMe && other == c.client || slices.ContainsFunc(filters, func(f func(*session) bool) bool { return !f(other) }) {
			return
		}
		killed++
		if me = me || other == c.client; other != c.client {
			other.conn.Close(errKilled)
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
			c.client.life.Drain(errKilled)
		}
	})
}

// killFilter parses one filter of CLIENT KILL. If it fails, text is the error to reply with.
func killFilter(word, v []byte, now int64) (f func(*session) bool, text string) {
	value := string(v)
	switch {
	case resp.EqualFold(word, "ID"):
		id, ok := resp.ParseInt(v)
		if !ok || id < 1 {
			return nil, "ERR client-id should be greater than 0"
		}
		return func(c *session) bool { return c.id == id }, ""
	case resp.EqualFold(word, "ADDR"):
		return func(c *session) bool { return c.addr() == value }, ""
	case resp.EqualFold(word, "LADDR"):
		return func(c *session) bool { return addrText(c.conn.LocalAddr(), c.conn.LocalAddr()) == value }, ""
	case resp.EqualFold(word, "USER"):
		if value != "default" {
			return nil, fmt.Sprintf(errNoSuchUser, resp.Excerpt(v))
		}
		return func(*session) bool { return true }, ""
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
		return func(c *session) bool { return (now-c.pub.created)/int64(time.Second) >= age }, ""
	}
	return nil, spec.ErrSyntax
}
