package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// patient returns a go-redis client with one connection that waits for replies as long as they take.
func patient(t *testing.T, addr string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1, ReadTimeout: -1, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// asks sends a command and returns a channel with its reply, as fmt.Sprint prints it.
func asks(c *goredis.Client, command string) <-chan string {
	var args []any
	for _, w := range strings.Fields(command) {
		args = append(args, w)
	}
	out := make(chan string, 1)
	go func() {
		v, err := c.Do(context.Background(), args...).Result()
		if err != nil {
			v = err
		}
		out <- fmt.Sprint(v)
	}()
	return out
}

func soon(t *testing.T, reply <-chan string) string {
	t.Helper()
	select {
	case s := <-reply:
		return s
	case <-time.After(deadline):
		t.Fatal("no reply")
		panic("unreachable")
	}
}

// says checks the reply to a command that does not wait.
func says(t *testing.T, c *goredis.Client, command, want string) {
	t.Helper()
	if got := soon(t, asks(c, command)); got != want {
		t.Errorf("%s: %s, want %s", command, got, want)
	}
}

// waiting waits until there are n waiters.
func waiting(t *testing.T, c *goredis.Client, n int) {
	t.Helper()
	want := fmt.Sprintf("\nwaiting:%d\r", n)
	eventually(t, fmt.Sprintf("%d requests wait", n), func() bool {
		return strings.Contains(soon(t, asks(c, "INFO limiter")), want)
	})
}

// Waiters are granted in the order in which they asked. Waiters that leave, in whatever way, are skipped.
func TestWaitOrder(t *testing.T) {
	t.Parallel()
	p := startRace(t)
	admin := patient(t, p.Addr)
	const granted = "[0 1 0 -1 3600000]"
	says(t, admin, "RL.LEASE job 1 1h ID first", granted)
	const n = 21
	var clients [n]*goredis.Client
	var replies [n]<-chan string
	left := n
	for i := range n {
		clients[i] = patient(t, p.Addr)
		id := soon(t, asks(clients[i], "CLIENT ID"))
		replies[i] = asks(clients[i], fmt.Sprintf("RL.LEASE job 1 1h ID %d WAIT 1h", i))
		waiting(t, admin, left-n+i+1)
		switch i % 6 {
		case 1:
			_ = clients[i].Close()
			left--
		case 3:
			says(t, admin, "CLIENT KILL ID "+id, "1")
			left--
		case 5:
			says(t, admin, "CLIENT UNBLOCK "+id+" ERROR", "1")
			if got := soon(t, replies[i]); got != "UNBLOCKED client unblocked via CLIENT UNBLOCK" {
				t.Errorf("client %d was unblocked: %s", i, got)
			}
			left--
		}
		waiting(t, admin, left-n+i+1)
	}
	var (
		mu    sync.Mutex
		order []int
		all   sync.WaitGroup
	)
	for i := 0; i < n; i += 2 {
		all.Go(func() {
			got := soon(t, replies[i])
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if got != granted {
				t.Errorf("client %d: %s", i, got)
			}
			says(t, clients[i], fmt.Sprintf("RL.RELEASE job ID %d", i), "1")
		})
	}
	says(t, admin, "RL.RELEASE job ID first", "1")
	all.Wait()
	if !slices.IsSorted(order) || len(order) != left {
		t.Errorf("granted in the order %v", order)
	}
	says(t, admin, "EXISTS job", "0")
}

// By the server's clock, waiters are granted at the pace of the limit, not earlier, and not after their time
// is over.
func TestWaitTakes(t *testing.T) {
	t.Parallel()
	p := start(t)
	const n, each = 10, 20 * time.Millisecond
	a, b := patient(t, p.Addr), patient(t, p.Addr)
	begin := time.Now()
	for i := range n {
		if got := soon(t, asks(a, "RL.TAKE k GCRA 50/s BURST 1 WAIT 10s")); got != "[0 1 0 -1 20]" {
			t.Errorf("take %d: %s", i, got)
		}
	}
	if took := time.Since(begin); took < (n-1)*each {
		t.Errorf("%d takes at 50/s took %v", n, took)
	}
	says(t, a, "RL.TAKE slow GCRA 1/h", "[0 1 0 -1 3600000]")
	begin = time.Now()
	got := soon(t, asks(a, "RL.TAKE slow GCRA 1/h WAIT 100ms"))
	if took := time.Since(begin); took < 100*time.Millisecond || !strings.HasPrefix(got, "[1 1 0 35") {
		t.Errorf("in vain: %s after %v", got, took)
	}
	reply := asks(a, "RL.TAKE slow GCRA 1/h WAIT 1h")
	waiting(t, b, 1)
	says(t, b, "RL.RESET slow", "1")
	if got := soon(t, reply); got != "[0 1 0 -1 3600000]" {
		t.Errorf("after a reset: %s", got)
	}
	// In a pipeline, the commands before the wait are answered before it.
	raw, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(deadline))
	if _, err := io.WriteString(raw, "PING\r\nRL.TAKE slow GCRA 1/h WAIT 1h\r\nECHO after\r\n"); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if n, err := io.ReadFull(raw, got); err != nil || string(got) != want {
			t.Fatalf("read %q, %v; want %q", got[:n], err, want)
		}
	}
	expect("+PONG\r\n")
	waiting(t, b, 1)
	says(t, b, "RL.REFUND slow GCRA 1/h", "[0 1 1 -1 0]")
	expect("*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:3600000\r\n$5\r\nafter\r\n")
}

// When a connection ends, its wait ends, with TLS, too. A connection that has only finished sending still
// gets its reply.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	f := startFixture(t)
	admin := patient(t, f.open.Addr)
	says(t, admin, "RL.TAKE k GCRA 1/h", "[0 1 0 -1 3600000]")
	const wait = "RL.TAKE k GCRA 1/h WAIT 1h\r\n"
	for name, dial := range map[string]func() (net.Conn, error){
		"tcp": func() (net.Conn, error) { return net.Dial("tcp", f.open.Addr) },
		"tls": func() (net.Conn, error) { return tls.Dial("tcp", "127.0.0.1:"+f.tlsPort, trust(t, f.cert)) },
	} {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, wait); err != nil {
			t.Fatal(err)
		}
		waiting(t, admin, 1)
		_ = c.Close()
		waiting(t, admin, 0)

		if c, err = dial(); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(deadline))
		if _, err := io.WriteString(c, wait); err != nil {
			t.Fatal(err)
		}
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "*5\r\n:1\r\n:1\r\n:0\r\n:3") {
			t.Errorf("%s, after the end of input: %q, %v", name, got, err)
		}
	}
	waiting(t, admin, 0)
}

// A server that stops answers its waiters, and keeps leases. What a waiter was granted is on disk before the
// reply.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--appendonly", "yes", "--appendfsync", "always"}
	p := startIn(t, dir, args...)
	a, b := patient(t, p.Addr), patient(t, p.Addr)
	says(t, b, "RL.LEASE job 1 1h ID b", "[0 1 0 -1 3600000]")
	reply := asks(a, "RL.LEASE job 1 1h ID a WAIT 1h")
	waiting(t, b, 1)
	says(t, b, "RL.RELEASE job ID b", "1")
	if got := soon(t, reply); got != "[0 1 0 -1 3600000]" {
		t.Errorf("after the release: %s", got)
	}
	reply = asks(b, "RL.LEASE job 1 1h ID b WAIT 1h")
	waiting(t, a, 1)
	p.Signal(syscall.SIGTERM)
	if got := soon(t, reply); !strings.HasPrefix(got, "[1 1 0 3") {
		t.Errorf("while it stops: %s", got)
	}
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p = startIn(t, dir, args...)
	a = patient(t, p.Addr)
	if got := soon(t, asks(a, "RL.HOLDERS job")); !strings.HasPrefix(got, "[[a 1 3") {
		t.Errorf("after a restart the holders are %s", got)
	}
	says(t, a, "RL.RELEASE job ID a", "1")
}
