package server

import (
	"fmt"
	"slices"
	"time"

	"limitdb/resp"
)

// clientKill accepts either an address alone or filters, all of which must match.
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
				c.client.life.Drain(errKilled)
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
	c.fewClients(max(1, walkClients/max(1, len(filters))), func(other *session) {
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
			c.client.life.Drain(errKilled)
		}
	})
}

// killFilter parses one filter of CLIENT KILL. If it fails, text is the error to reply with.
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
