package torture

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"limitdb/resp"
)

// outcome is what a client knows of a command.
type outcome int

const (
	answered  outcome = iota
	notDone           // it was not counted
	unknown           // it may have been counted
	violation         // an answer that no server may give
)

// client is a plain connection that follows redirects.
type client struct {
	rand  *rand.Rand
	addrs []string
	addr  string
	conn  net.Conn
	r     *bufio.Reader
}

const clientPatience = 3 * time.Second

func (c *client) drop() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn, c.addr = nil, c.addrs[c.rand.IntN(len(c.addrs))]
}

// call sends commands in one write, and returns the replies and how much is known of each command.
func (c *client) call(commands ...string) ([]resp.Value, []outcome) {
	values, outcomes := make([]resp.Value, len(commands)), make([]outcome, len(commands))
	all := func(o outcome, from int) ([]resp.Value, []outcome) {
		for i := from; i < len(outcomes); i++ {
			outcomes[i] = o
		}
		c.drop()
		return values, outcomes
	}
	if c.addr == "" {
		c.drop()
	}
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.addr, time.Second)
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			return all(notDone, 0)
		}
		c.conn, c.r = conn, bufio.NewReader(conn)
	}
	_ = c.conn.SetDeadline(time.Now().Add(clientPatience))
	if _, err := io.WriteString(c.conn, strings.Join(commands, "")); err != nil {
		return all(unknown, 0)
	}
	moved := ""
	for i := range commands {
		v, err := resp.ReadReply(c.r, 1<<20)
		if err != nil {
			return all(unknown, i)
		}
		values[i] = v
		if err := v.Err(); err != nil {
			outcomes[i] = classify(err.Error())
			if to, ok := strings.CutPrefix(err.Error(), "MOVED "); ok {
				_, moved, _ = strings.Cut(to, " ")
			} else if outcomes[i] == notDone {
				moved = "?"
			}
		}
	}
	if moved != "" {
		c.drop()
		if moved != "?" {
			c.addr = moved
		} else {
			time.Sleep(20 * time.Millisecond)
		}
	}
	return values, outcomes
}

func classify(err string) outcome {
	word, _, _ := strings.Cut(err, " ")
	switch word {
	case "MOVED", "CLUSTERDOWN", "LOADING":
		return notDone
	case "UNKNOWNOUTCOME":
		return unknown
	}
	return violation
}

// ints returns the integers of a reply.
func ints(v resp.Value) (all []int, err error) {
	for _, e := range v.Elems {
		if e.Kind != ':' {
			return nil, fmt.Errorf("not an integer: %v", e)
		}
		all = append(all, int(e.Int))
	}
	return all, nil
}
