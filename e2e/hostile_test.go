package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// serves fails the test unless a new client gets replies to a PING and a decision.
func serves(t *testing.T, p *proc) {
	t.Helper()
	c := dial(t, p.Addr)
	defer c.Close()
	if got := c.do("PING"); got != "+PONG" {
		t.Errorf("a good client gets %q for PING", got)
	}
	if got := c.do("RL.PEEK", "nobody", "GCRA", "5/m"); got != "[:0 :5 :4 :-1 :12000]" {
		t.Errorf("a good client gets %q for RL.PEEK", got)
	}
}

// TestWriteAllReadLater writes 200 000 commands before it reads the first reply, as many libraries do with a
// long pipeline. The client is served completely.
func TestWriteAllReadLater(t *testing.T) {
	t.Parallel()
	p := start(t)
	c := dial(t, p.Addr)
	const n = 200_000
	one := command("CL.THROTTLE", "user123", "99999", "1", "3600")
	begun := time.Now()
	c.send(strings.Repeat(one, n))
	wrote := time.Since(begun)
	allowed := 0
	for i := range n {
		reply := c.reply()
		if strings.HasPrefix(reply, "[:0 ") {
			allowed++
		} else if !strings.HasPrefix(reply, "[:1 ") {
			t.Fatalf("reply %d is %q", i, reply)
		}
	}
	if allowed != 100_000 {
		t.Errorf("%d of %d were allowed, want 100000", allowed, n)
	}
	t.Logf("written in %v, all read after %v, peak RSS %d MB", wrote, time.Since(begun), p.PeakRSS()>>20)
	serves(t, p)
}

// TestSlowReader pipelines until the server stops reading, and only then reads. It is served completely: a
// client that takes something within write-timeout is not closed, however slow it is.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	p := start(t, "--client-output-buffer-limit", "4mb")
	c := dial(t, p.Addr)
	one := command("ECHO", strings.Repeat("x", 1000))
	batch := []byte(strings.Repeat(one, 1000))
	n := 0
	for {
		c.SetWriteDeadline(time.Now().Add(2 * time.Second))
		k, err := c.Write(batch[n%len(one):])
		n += k
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			break
		}
		if err != nil {
			t.Fatalf("closed after %d bytes: %v", n, err)
		}
	}
	c.SetWriteDeadline(time.Time{})
	for i := range n / len(one) {
		if got := c.reply(); len(got) != 1000 {
			t.Fatalf("reply %d of %d: %.20q", i, n/len(one), got)
		}
	}
	serves(t, p)
}

// TestNeverReads pipelines forever and reads nothing. The client is closed after write-timeout, and uses
// little memory until then.
func TestNeverReads(t *testing.T) {
	t.Parallel()
	p := start(t, "--client-output-buffer-limit", "8mb", "--write-timeout", "1", "--loglevel", "verbose")
	c := dial(t, p.Addr)
	c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	batch := []byte(strings.Repeat(command("ECHO", strings.Repeat("x", 1000)), 1000))
	end := time.Now().Add(deadline)
	for time.Now().Before(end) {
		c.SetWriteDeadline(end)
		if _, err := c.Write(batch); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Fatal("the client is neither read from nor closed")
			}
			break
		}
	}
	if !time.Now().Before(end) {
		t.Fatal("the client may write for ever")
	}
	eventually(t, "the log says why", func() bool {
		return strings.Contains(p.Log(), "replies were not read within write-timeout")
	})
	if rss := p.PeakRSS(); rss > 150<<20 {
		t.Errorf("the server took %d MB", rss>>20)
	}
	serves(t, p)
}

// TestSilentHalves has 2 000 clients send half a command and then nothing. All of them are closed in time.
func TestSilentHalves(t *testing.T) {
	t.Parallel()
	p := startRace(t, "--command-timeout", "1")
	const n = 2000
	conns := dialMany(t, p.Addr, n, "*6\r\n$11\r\nCL.THROTTLE\r\n$7\r\nuser")
	serves(t, p)
	for i, c := range conns {
		c.SetReadDeadline(time.Now().Add(deadline))
		if b, err := io.ReadAll(c); isTimeout(err) {
			t.Fatalf("client %d stays connected; it was sent %q", i, b)
		}
	}
	serves(t, p)
	eventually(t, "all clients are gone", func() bool {
		c := dial(t, p.Addr)
		defer c.Close()
		return strings.Contains(c.do("INFO", "clients"), "connected_clients:1\r\n")
	})
}

// TestAnnouncers lets 1 000 clients announce a million arguments before AUTH, which must cost no memory.
func TestAnnouncers(t *testing.T) {
	t.Parallel()
	p := start(t, "--requirepass", password)
	before := p.RSS()
	conns := dialMany(t, p.Addr, 1000, "*1048576\r\n")
	for _, c := range conns {
		c.SetReadDeadline(time.Now().Add(deadline))
		b, err := io.ReadAll(c)
		if want := "-ERR Protocol error: unauthenticated multibulk length\r\n"; string(b) != want {
			t.Fatalf("got %q (%v), want %q", b, err, want)
		}
	}
	if grown := p.PeakRSS() - before; grown > 64<<20 {
		t.Errorf("1000 announcements took %d MB", grown>>20)
	}
}

// TestSilentBeforeAuth has clients connect to a server with a password and send nothing.
func TestSilentBeforeAuth(t *testing.T) {
	t.Parallel()
	p := startRace(t, "--requirepass", password, "--auth-timeout", "1")
	for _, c := range dialMany(t, p.Addr, 100, "") {
		c.SetReadDeadline(time.Now().Add(deadline))
		if _, err := io.ReadAll(c); isTimeout(err) {
			t.Fatal("a client that never gives the password stays connected")
		}
	}
}

// TestStrangersGiveWay has silent clients take every place of both ports, many times over. Whoever has the password gets in at once, and
// so does a health check.
func TestStrangersGiveWay(t *testing.T) {
	t.Parallel()
	p := startRace(t, "--requirepass", password, "--maxclients", "50", "--auth-timeout", "3600", "--http-password", password)
	friend := dial(t, p.Addr)
	if got := friend.do("AUTH", password); got != "+OK" {
		t.Fatal(got)
	}
	for range 5 {
		dialMany(t, p.Addr, 100, "")
		dialMany(t, p.HTTPAddr, 100, "GET /livez HTTP/1.1\r\nHost: a\r\nX: ")
		// The silent clients are closed in their turn, and more than a few at a time are refused.
		eventually(t, "there is a place for a client with the password", func() bool {
			c := dial(t, p.Addr)
			defer c.Close()
			_, _ = io.WriteString(c, command("AUTH", password)+command("PING"))
			b := make([]byte, len("+OK\r\n+PONG\r\n"))
			_, _ = io.ReadFull(c, b)
			return string(b) == "+OK\r\n+PONG\r\n"
		})
		for _, path := range []string{"/livez", "/readyz"} {
			if get("http://"+p.HTTPAddr+path) == "" {
				t.Errorf("%s does not answer with 200", path)
			}
		}
	}
	if got := friend.do("PING"); got != "+PONG" {
		t.Errorf("a client with the password: %q", got)
	}
}

// TestMaxClients connects the maximum number of clients. One more gets an error, and can connect when another
// leaves.
func TestMaxClients(t *testing.T) {
	t.Parallel()
	p := startRace(t, "--maxclients", "20")
	var conns []*rawConn
	eventually(t, "20 clients are connected", func() bool { // the readiness probe may still be connected
		conns = nil
		for range 20 {
			c := dial(t, p.Addr)
			conns = append(conns, c)
			if c.do("PING") != "+PONG" {
				for _, c := range conns {
					c.Close()
				}
				return false
			}
		}
		return true
	})
	for range 100 {
		c := dial(t, p.Addr)
		if got, want := c.rest(), "-ERR max number of clients reached\r\n"; got != want {
			t.Fatalf("one client too many gets %q, want %q", got, want)
		}
	}
	if got := conns[0].do("PING"); got != "+PONG" {
		t.Errorf("a connected client gets %q", got)
	}
	conns[19].Close()
	eventually(t, "there is a place again", func() bool {
		c := dial(t, p.Addr)
		defer c.Close()
		return c.do("PING") == "+PONG"
	})
}

// TestResets breaks connections in the middle of their pipelines.
func TestResets(t *testing.T) {
	t.Parallel()
	p := startRace(t)
	pipeline := strings.Repeat(command("CL.THROTTLE", "user123", "15", "30", "60"), 500) + "*6\r\n$11\r\nCL.THR"
	for range 100 {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		c.(*net.TCPConn).SetLinger(0) // Close sends RST
		io.WriteString(c, pipeline)
		c.Close()
	}
	serves(t, p)
	eventually(t, "all clients are gone", func() bool {
		c := dial(t, p.Addr)
		defer c.Close()
		return strings.Contains(c.do("INFO", "clients"), "connected_clients:1\r\n")
	})
}

// TestHalfClose sends a long pipeline, finishes sending, and reads all replies.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	p := startRace(t)
	c := dial(t, p.Addr)
	const n = 20_000
	go func() {
		io.WriteString(c, strings.Repeat(command("PING"), n))
		c.Conn.(*net.TCPConn).CloseWrite()
	}()
	if got := c.rest(); got != strings.Repeat("+PONG\r\n", n) {
		t.Errorf("%d bytes came back, want %d", len(got), n*len("+PONG\r\n"))
	}
}

// TestHostileCrowd keeps 2 000 hostile connections busy, in all the ways above at the same time, until the server
// has closed them several times over. Memory stays within the configured limits, and a good client is
// served all the time.
func TestHostileCrowd(t *testing.T) {
	rounds := 3
	if long() {
		rounds = 100
	}
	const clients = 2000
	const buffers, perClient = 64 << 20, 32 << 10
	p := start(t, "--maxmemory-clients", "64mb", "--client-output-buffer-limit", "1mb", "--command-timeout", "1",
		"--write-timeout", "1", "--maxclients", "3000")
	idle := p.RSS()

	// The crowd is a process of its own, with low priority, so that the good client waits for the server and
	// not for this process.
	crowd := exec.Command("nice", os.Args[0], "-test.run", "^TestCrowd$", "-test.timeout", "0")
	crowd.Env = append(os.Environ(), fmt.Sprintf("E2E_CROWD=%s %d", p.Addr, clients))
	out := &logBuffer{}
	crowd.Stdout, crowd.Stderr = out, out
	if _, err := crowd.StdinPipe(); err != nil { // its end is the end of the crowd, also if this process is killed
		t.Fatal(err)
	}
	if err := crowd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- crowd.Wait() }()
	t.Cleanup(func() { crowd.Process.Kill() })

	good := dial(t, p.Addr)
	served, connected, closed, slowest, asked := 0, 0, 0, time.Duration(0), time.Now()
	for began := time.Now(); closed < rounds*clients/5 || served < 100 || connected < clients/2; served++ {
		select {
		case err := <-done:
			t.Fatalf("the crowd has ended: %v\n%s", err, out.String())
		default:
		}
		if time.Since(began) > time.Duration(rounds)*deadline {
			t.Fatalf("the good client was served %d times, beside %d clients at most; %d of a kind were closed", served, connected, closed)
		}
		good.SetDeadline(time.Now().Add(deadline))
		begun := time.Now()
		if got := good.do("RL.TAKE", "good", "GCRA", "1000000000/s"); !strings.HasPrefix(got, "[:0 ") {
			t.Fatalf("the good client gets %q", got)
		}
		slowest = max(slowest, time.Since(begun))
		if time.Since(asked) > 100*time.Millisecond {
			asked = time.Now()
			info := good.do("INFO", "clients")
			connected = max(connected, atoi(t, regexp.MustCompile(`connected_clients:(\d+)`).FindStringSubmatch(info)[1]))
			closed = closedByServer(t, p)
		}
	}
	peak := p.PeakRSS()
	// The buffers that clients may have and the cost of each connection (a read buffer, a socket, two
	// stacks), twice, because of the garbage collector.
	limit := idle + 2*(buffers+3000*perClient)
	t.Logf("%d decisions for the good client, the slowest after %v; up to %d clients; RSS %d MB idle, %d MB at its peak, at most %d MB allowed",
		served, slowest, connected, idle>>20, peak>>20, limit>>20)
	if peak > limit {
		t.Errorf("the server took %d MB, want at most %d MB", peak>>20, limit>>20)
	}
	crowd.Process.Kill()
	<-done
	serves(t, p)
}

// closedByServer returns how many connections the server has closed for half commands and for nonsense, the fewer of
// the two, or 0 while it has closed none for the replies that it does not read.
func closedByServer(t *testing.T, p *proc) int {
	counts := map[string]int{}
	for _, m := range regexp.MustCompile(`limitdb_connections_closed_total{reason="(.*)"} (\d+)`).FindAllStringSubmatch(get("http://"+p.HTTPAddr+"/metrics"), -1) {
		counts[m[1]] = atoi(t, m[2])
	}
	if counts["write-timeout"]+counts["output-buffer"]+counts["maxmemory-clients"] == 0 {
		return 0
	}
	return min(counts["command-timeout"], counts["protocol"])
}

// TestCrowd is the process of the crowd above. It does nothing by itself.
func TestCrowd(t *testing.T) {
	var addr string
	var clients int
	if n, _ := fmt.Sscan(os.Getenv("E2E_CROWD"), &addr, &clients); n != 2 {
		return
	}
	for i := range clients {
		go hostile(addr, i)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the other process kills it, or ends
}

// hostile misbehaves in the i-th way, on one connection after the other.
func hostile(addr string, i int) {
	half := command("CL.THROTTLE", "user", "15", "30", "60")
	flood := []byte(strings.Repeat(command("ECHO", strings.Repeat("x", 1000)), 100))
	for {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			continue
		}
		c.SetDeadline(time.Now().Add(3 * time.Second))
		switch i % 5 {
		case 0: // never reads
			for err == nil {
				_, err = c.Write(flood)
			}
		case 1: // stops in the middle of a command
			io.WriteString(c, half[:len(half)/2])
			io.Copy(io.Discard, c)
		case 2: // resets in the middle of a pipeline
			c.(*net.TCPConn).SetLinger(0)
			c.Write(flood)
		case 3: // a large bulk, half sent
			io.WriteString(c, "*2\r\n$4\r\nECHO\r\n$60000\r\n"+strings.Repeat("x", 50000))
			io.Copy(io.Discard, c)
		case 4: // nonsense
			fmt.Fprintf(c, "*%d\r\n$%d\r\n", i, -i)
			io.Copy(io.Discard, c)
		}
		c.Close()
	}
}

// dialMany opens n connections and sends s on each.
func dialMany(t *testing.T, addr string, n int, s string) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.DialTimeout("tcp", addr, deadline)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		w := bufio.NewWriter(c)
		w.WriteString(s)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		conns[i] = c
	}
	return conns
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}
