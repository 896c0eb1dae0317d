package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"limitdb/resp"
)

// slots is how many slots a cluster has.
const slots = 16384

// cluster is which node of a cluster leads each slot.
type cluster struct {
	nodes []string // the addresses of those that lead any
	of    [slots]int
}

var errCluster = errors.New("the nodes do not lead all slots: the cluster is not complete")

// discover asks a node which nodes lead the slots.
func discover(ctx context.Context, c *Config) (*cluster, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := authenticate(conn, c.Password, c.Timeout); err != nil {
		return nil, err
	}
	text, err := ask(conn, c.Timeout, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	return parseNodes(text)
}

// parseNodes reads the reply to CLUSTER NODES.
func parseNodes(text string) (*cluster, error) {
	m := &cluster{}
	left := slots
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 {
			continue
		}
		addr, _, _ := strings.Cut(f[1], "@")
		for _, r := range f[8:] {
			from, to, ok := strings.Cut(r, "-")
			if !ok {
				to = from
			}
			first, err1 := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil || first < 0 || first > last || last >= slots {
				return nil, fmt.Errorf("slots %q in the reply to CLUSTER NODES", r)
			}
			if !slices.Contains(m.nodes, addr) {
				m.nodes = append(m.nodes, addr)
			}
			for s := first; s <= last; s++ {
				if m.of[s] == 0 {
					left--
				}
				m.of[s] = len(m.nodes)
			}
		}
	}
	if left > 0 {
		return nil, errCluster
	}
	return m, nil
}

// picker returns a picker of the keys that the node of a connection leads: it draws until it has one.
func (m *cluster) picker(all picker, t *template, index int) picker {
	node := index%len(m.nodes) + 1
	var b []byte
	return picker{func() uint64 {
		for {
			k := all.next()
			if b = t.appendTo(b[:0], k); m.of[resp.Slot(b[t.key:t.keyEnd])] == node {
				return k
			}
		}
	}}
}
