package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"limitdb/resp"
)

// counts are the replies to requests, by what they mean.
type counts struct{ granted, denied, unknown, down, other int }

func (c *counts) add(d counts) {
	c.granted += d.granted
	c.denied += d.denied
	c.unknown += d.unknown
	c.down += d.down
	c.other += d.other
}

// hammer sends a command again and again over one connection, pipelined, until stop is closed. It returns what came
// back; lost is the number of requests that got no reply.
func hammer(addr, command string, stop <-chan struct{}) (all counts, lost int) {
	const pipeline = 8
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return all, 1
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for {
		select {
		case <-stop:
			return all, 0
		default:
		}
		if _, err := io.WriteString(conn, strings.Repeat(command, pipeline)); err != nil {
			return all, pipeline
		}
		for i := range pipeline {
			v, err := resp.ReadReply(r, 1<<20)
			switch {
			case err != nil:
				return all, pipeline - i
			case v.Err() == nil && v.Elems[0].Int == 0:
				all.granted++
			case v.Err() == nil:
				all.denied++
			case strings.HasPrefix(v.Text, "UNKNOWNOUTCOME"):
				all.unknown++
			case strings.HasPrefix(v.Text, "CLUSTERDOWN"):
				all.down++
			default:
				all.other++
			}
		}
	}
}

// Plain clients take through the nodes that do not lead, while the leader is killed. Their connections last, each
// request gets one reply, and the nodes count exactly what was granted, except for what is not known.
func TestPlainClientsSeeTheLeaderKilled(t *testing.T) {
	nodes := startCluster(t, 3)
	at := leader(t, nodes)
	const burst = 1_000_000
	limit := []string{"GCRA", "1/h", "BURST", fmt.Sprint(burst)}
	command := strings.Join(append([]string{"RL.TAKE", "key"}, limit...), " ") + "\r\n"
	stop := make(chan struct{})
	var mu sync.Mutex
	var sum counts
	var all sync.WaitGroup
	for _, n := range nodes {
		if n == at {
			continue
		}
		for range 4 {
			all.Go(func() {
				c, lost := hammer(n.Addr, command, stop)
				mu.Lock()
				defer mu.Unlock()
				sum.add(c)
				if lost > 0 {
					t.Errorf("%s: %d requests got no reply", n.id, lost)
				}
			})
		}
	}
	time.Sleep(200 * time.Millisecond) // the load, not a wait
	at.Kill()
	at.proc = nil
	next := leader(t, nodes)
	time.Sleep(200 * time.Millisecond)
	close(stop)
	all.Wait()
	used := usedOf(t, next, limit, burst)
	t.Logf("%+v, %d used", sum, used)
	if used < sum.granted || used > sum.granted+sum.unknown || sum.granted == 0 || sum.denied+sum.other > 0 {
		t.Errorf("%d are used; %+v", used, sum)
	}
}
