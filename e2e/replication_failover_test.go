package e2e

import (
	"bufio"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"limitdb/resp"
)

// TestFailoverTimes measures the time from the leader's death to the next decision. There is no bound here: bench/replication.sh
// prints the times, with LIMITDB_KILLS as their number.
func TestFailoverTimes(t *testing.T) {
	t.Parallel()
	kills := 1
	if s := os.Getenv("LIMITDB_KILLS"); s != "" {
		kills = atoi(t, s)
	} else if long() {
		kills = 30
	}
	nodes := startClusterOf(t, 3, "500") // the default
	var times []time.Duration
	for i := range kills {
		at := leader(t, nodes)
		down := *at
		at.proc = nil
		if i > 0 {
			time.Sleep(time.Second) // the node that was started again has settled
		}
		killed := time.Now()
		down.Kill()
		first := make(chan struct{}, len(nodes))
		for _, n := range nodes {
			if n.proc != nil {
				go decides(n.Addr, first)
			}
		}
		<-first
		times = append(times, time.Since(killed))
		at.proc = down.proc
		at.restart(t)
		eventually(t, "the killed node follows", func() bool { return strings.Contains(at.ask(t, "INFO", "replication"), "master_link_status:up") })
	}
	slices.Sort(times)
	t.Logf("%d kills: median %v, slowest %v, fastest %v", kills, times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond), times[0].Round(time.Millisecond))
}

// decides asks a server until it makes a decision.
func decides(addr string, first chan<- struct{}) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := io.WriteString(conn, "RL.TAKE probe GCRA 1000/s\r\n"); err != nil {
			return
		}
		v, err := resp.ReadReply(r, 1<<20)
		if err != nil {
			return
		}
		if v.Err() == nil {
			first <- struct{}{}
			return
		}
	}
}
