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

// The leader is stopped, and another node leads and gets rules and other values. When the first one continues, it
// must tell nobody that there are none: an error is an answer from its old state as well.
func TestPausedLeaderTellsNoOldError(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	rounds := 1
	if long() {
		rounds = 12
	}
	for round := range rounds {
		at := leader(t, nodes)
		ns, key := fmt.Sprint("ns", round), fmt.Sprint("key", round)
		if got := at.ask(t, "SET", key, "text"); got != "OK" {
			t.Fatal(got)
		}
		asks := []string{
			"RL.CHECK " + ns + " 1 user me", "RL.RULES GET " + ns + " r", "RL.RULES LIST " + ns, "RL.RULES STATS " + ns, "RL.RULES INFO " + ns + " r user me",
			"RL.RULES RESET " + ns + " r user me", "INCR " + key, "LLEN " + key, "EVAL 'return redis.call([[incr]],KEYS[1])' 1 " + key,
		}
		conns := make([]net.Conn, len(asks))
		for i := range conns {
			conn, err := net.Dial("tcp", at.Addr)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(deadline))
			conns[i] = conn
		}
		stall(t, at.proc)
		for i, conn := range conns {
			if _, err := io.WriteString(conn, strings.Repeat(asks[i]+"\r\n", 3)); err != nil {
				t.Fatal(err)
			}
		}
		var others []*raftNode
		for _, n := range nodes {
			if n != at {
				others = append(others, n)
			}
		}
		next := leader(t, others)
		for _, words := range [][]string{
			{"RL.RULES", "SET", ns, "r", "{key: [user], limit: 10/d}"}, {"SET", key, "1"},
		} {
			if got := next.ask(t, words...); strings.HasPrefix(got, "-") {
				t.Fatalf("%q: %s", words, got)
			}
		}
		at.Signal(syscall.SIGCONT)
		for i, conn := range conns {
			r := bufio.NewReader(conn)
			for range 3 {
				v, err := resp.ReadReply(r, 1<<20)
				if err != nil {
					break // the end of the connection: the outcome is unknown
				}
				for _, old := range []string{"NORULE", "ERR value is not an integer", "ERR ERR"} {
					if strings.HasPrefix(v.Text, old) {
						t.Errorf("%s: the leader that was stopped answers from its old state: %s", asks[i], v.Text)
					}
				}
			}
			_ = conn.Close()
		}
	}
}
