package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"limitdb/resp"
)

// The leader is stopped in the middle of its work, requests wait for it, and another node leads and grants the whole quota. When the
// first one continues, its table still has quota to give, but it must not send a grant.
func TestPausedLeaderAnswersNothingOld(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	const burst = 100
	limit := fmt.Sprintf("GCRA 1/d BURST %d", burst)
	rounds := 1
	if long() {
		rounds = 10
	}
	for round := range rounds {
		at := leader(t, nodes)
		key := fmt.Sprint("key", round)
		if got := at.ask(t, strings.Fields("RL.TAKE "+key+" "+limit)...); !strings.HasPrefix(got, "[0 ") {
			t.Fatalf("a first request: %s", got)
		}
		conn, err := net.Dial("tcp", at.Addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(deadline))
		stall(t, at.proc)
		const takes = 200
		if _, err := io.WriteString(conn, strings.Repeat("RL.TAKE "+key+" "+limit+"\r\n", takes)+"RL.PEEK "+key+" "+limit+"\r\n"); err != nil {
			t.Fatal(err)
		}
		var others []*raftNode
		for _, n := range nodes {
			if n != at {
				others = append(others, n)
			}
		}
		next := leader(t, others)
		granted := 1
		for range 2 * burst {
			if got := next.ask(t, strings.Fields("RL.TAKE "+key+" "+limit)...); strings.HasPrefix(got, "[0 ") {
				granted++
			}
		}
		if granted != burst {
			t.Fatalf("%d are granted of %d", granted, burst)
		}
		at.Signal(syscall.SIGCONT)
		r := bufio.NewReader(conn)
		for i := range takes + 1 {
			v, err := resp.ReadReply(r, 1<<20)
			if err != nil {
				break // the end of the connection: the outcome is unknown
			}
			if v.Err() == nil && (i < takes && v.Elems[0].Int == 0 || v.Elems[2].Int != 0) {
				t.Fatalf("the leader that was stopped answers request %d from its old state: %v", i, v)
			}
		}
		_ = conn.Close()
	}
}
