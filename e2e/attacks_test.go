package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// attack is the hostile behaviour of one connection. It is called again and again.
type attack struct {
	name string
	n    int // how many connections do it at the same time
	run  func(c net.Conn)
}

// attacks returns the ways in which one client tries to have the server for itself.
func attacks(keys int) []attack {
	discard := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	send := func(c net.Conn, text string, times int) {
		for range times {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
		_ = c.(*net.TCPConn).CloseWrite()
	}
	read := func(text string, times int) func(net.Conn) {
		return func(c net.Conn) {
			go send(c, text, times)
			discard(c)
		}
	}
	reset := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			_, _ = io.WriteString(c, text)
		}
	}
	var many []string
	for i := range 65_000 {
		many = append(many, "user:"+strconv.Itoa(i%keys))
	}
	members := func(name, key string) string { return command(append([]string{name, key}, many[:30_000]...)...) }
	class := "*[" + strings.Repeat("b-c", 300) + "]"
	return []attack{
		{"a pipeline of INFO, then a reset", 50, reset(strings.Repeat("INFO\r\n", 13_000))},
		{"a silent pipeline, then a reset", 10, reset("CLIENT REPLY OFF\r\n" + strings.Repeat("COMMAND DOCS\r\n", 4000))},
		{"an endless pipeline that is read", 4, read(strings.Repeat("INFO everything\r\n", 500), 20)},
		{"an endless pipeline of decisions", 4, read(strings.Repeat(command("CL.THROTTLE", "a", "10", "100", "60"), 1000), 50)},
		{"KEYS with a dear pattern", 4, read(command("KEYS", class), 1)},
		{"KEYS with a pattern that is too long", 2, read(command("KEYS", "*["+strings.Repeat("b-c", 15_000)+"]"), 1)},
		{"SCAN of much", 2, read(command("SCAN", "0", "COUNT", "100000", "MATCH", class), 20)},
		{"EXISTS of many keys", 4, read(command(append([]string{"EXISTS"}, many...)...), 10)},
		{"DEL of many keys", 1, read(command(append([]string{"DEL"}, many[:1000]...)...), 10)},
		{"a large set that is filled and emptied", 1, read(members("SADD", "set")+members("SMISMEMBER", "set")+members("SREM", "set"), 10)},
		{"a long list that is filled and emptied", 1, read(members("RPUSH", "list")+command("RPOP", "list", "1000000"), 10)},
		{"CLIENT LIST", 4, read("CLIENT LIST\r\n", 50)},
		{"CLIENT KILL of nobody", 2, read(command("CLIENT", "KILL", "ADDR", "1.2.3.4:5", "SKIPME", "yes"), 200)},
		{"COMMAND DOCS", 2, read("COMMAND DOCS\r\nRANDOMKEY\r\nDBSIZE\r\nMEMORY STATS\r\n", 100)},
	}
}

// TestAttacksStallNobody runs all attacks at the same time, beside a client that only wants its replies. It
// checks that the client gets each of them, and prints how long the slowest took. That client is a process of
// its own, because beside the attackers' goroutines it would wait for them.
func TestAttacksStallNobody(t *testing.T) {
	keys, crowd, lasts := 20_000, 200, "3s"
	if long() {
		keys, crowd, lasts = 500_000, 5000, "60s"
	}
	p := start(t, "--appendonly", "no", "--maxclients", "9000", "--http-bind", "127.0.0.1")
	fill(t, p.Addr, keys)
	for range crowd {
		dial(t, p.Addr)
	}
	stop := make(chan struct{})
	var attackers sync.WaitGroup
	for _, a := range attacks(keys) {
		for range a.n {
			attackers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					c, err := net.Dial("tcp", p.Addr)
					if err != nil {
						continue
					}
					end := make(chan struct{})
					go func() {
						select {
						case <-stop:
						case <-end:
						}
						_ = c.Close()
					}()
					a.run(c)
					close(end)
				}
			})
		}
	}
	r := run(t, "", "nice", "-n", "-10", plainBinary(t), "bench", "--addr", p.Addr, "-c", "1", "--rate", "50",
		"-d", lasts, "--timeout", deadline.String(), "--json", "-q", "PING")
	var good struct {
		Requests  int
		LatencyNS struct{ P50, P99, Max time.Duration } `json:"latency_ns"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &good); err != nil || r.Code != 0 || good.Requests == 0 {
		t.Errorf("the good client: %v\n%s%s", err, r.Stdout, r.Stderr)
	}
	live := get("http://" + p.HTTPAddr + "/livez")
	close(stop)
	attackers.Wait()
	t.Logf("of %d PINGs the slowest took %v, p99 %v, p50 %v", good.Requests, good.LatencyNS.Max, good.LatencyNS.P99, good.LatencyNS.P50)
	if live == "" {
		t.Error("/livez fails")
	}
	var info string
	eventually(t, "the attackers' connections are gone", func() bool {
		info = dial(t, p.Addr).do("INFO", "everything")
		return strings.HasPrefix(info, "# Server")
	})
	calls := regexp.MustCompile(`cmdstat_info:calls=(\d+)`).FindStringSubmatch(info)
	if calls == nil || !strings.Contains(info, "panics_contained:0") {
		t.Errorf("INFO says\n%s", info)
	}
	t.Logf("INFO ran %s times", calls[1])
}

// fill makes keys with a pipeline.
func fill(t *testing.T, addr string, keys int) {
	t.Helper()
	c := dial(t, addr)
	c.SetDeadline(time.Now().Add(time.Hour))
	go func() {
		w := bufio.NewWriterSize(c, 1<<16)
		for i := range keys {
			fmt.Fprintf(w, "RL.TAKE user:%d GCRA 5/h\r\n", i)
		}
		_, _ = io.WriteString(w, "ECHO done\r\n")
		_ = w.Flush()
	}()
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "done\r\n" {
			return
		}
	}
}

// TestResetEndsAPipeline sends thousands of commands and resets the connection: hardly any of the commands
// after the reset run, so that the server is free immediately.
func TestResetEndsAPipeline(t *testing.T) {
	t.Parallel()
	p := start(t, "--appendonly", "no")
	const clients, each = 20, 4000
	for range clients {
		c := dial(t, p.Addr)
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
		_, _ = io.WriteString(c, "CLIENT REPLY OFF\r\n"+strings.Repeat("COMMAND DOCS\r\n", each))
		_ = c.Close()
	}
	c := dial(t, p.Addr)
	eventually(t, "all have gone", func() bool { return strings.Contains(c.do("INFO", "clients"), "connected_clients:1\r\n") })
	info := c.do("INFO", "commandstats")
	calls := regexp.MustCompile(`cmdstat_command\|docs:calls=(\d+)`).FindStringSubmatch(info)
	if calls == nil {
		return // this is not one of them
	}
	if n, _ := strconv.Atoi(calls[1]); n >= clients*each {
		t.Errorf("%d commands ran, all that were sent", n)
	}
}
