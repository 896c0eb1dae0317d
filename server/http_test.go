package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/resp"
)

// overHTTP asks Do and parses its reply.
func overHTTP(t *testing.T, srv *Server, words ...string) resp.Value {
	t.Helper()
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	b, err := srv.Do(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, b)
}

// parsed parses a reply.
func parsed(t *testing.T, b []byte) resp.Value {
	t.Helper()
	v, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(b)), 1<<20)
	if err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return v
}

// Do decides on the same state as a client's commands, with the same replies and counters.
func TestDoIsAClientsCommand(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, words := range [][]string{
		{"RL.TAKE", "k", "GCRA", "10/m"},
		{"RL.PEEK", "k", "GCRA", "10/m"},
		{"RL.TAKE", "k", "GCRA", "10/m", "COST", "11"},
		{"RL.TAKE", "k", "NONE", "10/m"},
		{"NOTHING"},
		{"RL.TAKE", "k"},
		{"RL.TAKE", strings.Repeat("k", 5000), "GCRA", "1/m"},
		{"RL.TAKE", "k", "LOG", "10/m"},
	} {
		a := overHTTP(t, ts.Server, words...)
		c.do("DEL", "k")
		if words[0] != "RL.TAKE" || a.Err() != nil {
			continue
		}
		if b := c.do(words...); b.Err() != nil || len(a.Elems) != 5 {
			t.Errorf("%q: %+v by Do, %+v by a client", words, a, b)
		}
	}
	c.do("DEL", "k")
	before := c.do("RL.PEEK", "k", "GCRA", "10/m")
	overHTTP(t, ts.Server, "RL.TAKE", "k", "GCRA", "10/m", "COST", "3")
	if after := c.do("RL.PEEK", "k", "GCRA", "10/m"); after.Elems[2].Int != before.Elems[2].Int-3 {
		t.Errorf("a client sees %d left, then %d", before.Elems[2].Int, after.Elems[2].Int)
	}
	ts.client().do("RL.TAKE", "k", "GCRA", "10/m")
	for _, cmd := range ts.Figures().Commands {
		if cmd.Name == "rl.take" && (cmd.Calls() < 4 || cmd.Errors() < 3) {
			t.Errorf("%d calls and %d errors of RL.TAKE are counted", cmd.Calls(), cmd.Errors())
		}
	}
}

func TestDoIsRefused(t *testing.T) {
	ts := newTestServer(t)
	take := []string{"RL.TAKE", "k", "GCRA", "10/m"}
	want := func(text string, words ...string) {
		t.Helper()
		if v := overHTTP(t, ts.Server, words...); !strings.HasPrefix(v.Text, text) || v.Kind != '-' {
			t.Errorf("%q: %+v, want %q", words, v, text)
		}
	}
	want("ERR monitor needs a connection", "MONITOR")
	ts.SetLoading(true)
	want("LOADING", take...)
	ts.SetLoading(false)
	ts.SetRefusing(errors.New("full"))
	want("MISCONF", take...)
	ts.SetRefusing(nil)
	c := ts.client()
	c.do("CLIENT", "PAUSE", "1000", "WRITE")
	want("PAUSED", take...)
	if v := overHTTP(t, ts.Server, "RL.PEEK", "k", "GCRA", "10/m"); v.Err() != nil {
		t.Error(v.Err())
	}
	c.do("CLIENT", "UNPAUSE")
	ts.group.Follow()
	want("CLUSTERDOWN", take...)
	ts.group.Lead(ts.engine, 0)
	if v := overHTTP(t, ts.Server, take...); v.Err() != nil || v.Elems[2].Int != 9 {
		t.Errorf("something was taken before: %+v", v)
	}
	ts.Stopping()
	want("ERR the server is shutting down", take...)
}

// A reply that reveals state waits until the state is durable. Other replies do not wait.
func TestDoWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, d := newDiskServer(t)
		d.setAlways(true)
		replies := make(chan []byte, 1)
		ask := func(ctx context.Context, words ...string) {
			args := make([][]byte, len(words))
			for i, w := range words {
				args[i] = []byte(w)
			}
			go func() {
				b, err := ts.Do(ctx, args...)
				if err != nil {
					b = []byte(err.Error())
				}
				replies <- b
			}()
			synctest.Wait()
		}
		ask(t.Context(), "RL.TAKE", "k", "GCRA", "1/h")
		if len(replies) > 0 {
			t.Fatalf("replied before the sync: %q", <-replies)
		}
		d.sync()
		if b := <-replies; !bytes.HasPrefix(b, []byte("*5\r\n:0")) {
			t.Errorf("%q", b)
		}
		ask(t.Context(), "PING")
		if b := <-replies; string(b) != "+PONG\r\n" {
			t.Errorf("%q", b)
		}
		ask(t.Context(), "RL.TAKE", "k", "GCRA", "1/h", "COST", "-1")
		d.sync()
		if b := <-replies; b[0] != '-' {
			t.Errorf("%q", b)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ask(ctx, "RL.TAKE", "k", "GCRA", "1/h")
		time.Sleep(2 * time.Second)
		if b := <-replies; string(b) != context.DeadlineExceeded.Error() {
			t.Errorf("%q", b)
		}
		d.sync()
	})
}

// Monitors see the commands of Do.
func TestDoIsMonitored(t *testing.T) {
	ts := newTestServer(t)
	m := ts.client()
	m.do("MONITOR")
	overHTTP(t, ts.Server, "RL.TAKE", "k", "GCRA", "1/h")
	if line := string(m.conn.take()); !strings.HasSuffix(line, ` [0 http] "RL.TAKE" "k" "GCRA" "1/h"`+"\r\n") {
		t.Errorf("%q", line)
	}
}

// A panic in a handler fails only that call.
func TestDoContainsAPanic(t *testing.T) {
	ts := newTestServer(t)
	ts.table.find([]byte("PING")).Run = func(*call) { panic("a test") }
	if v := overHTTP(t, ts.Server, "PING"); v.Text != errInternalHTTP {
		t.Errorf("%+v", v)
	}
}
