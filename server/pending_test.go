package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/server/auth"
)

// Whatever a session waits for, a wake-up for another reason changes nothing, the event ends the wait, and the command has one effect
// and one reply, which comes before those of the commands behind it.
func TestEachWaitEndsOnce(t *testing.T) {
	for _, kind := range []struct {
		name, command string
		before        func(ts *testServer)
		event         func(ts *testServer, d *disk)
		want          string
	}{
		{
			"pause", "INCR n",
			func(ts *testServer) { ts.client().do("CLIENT", "PAUSE", "100000", "WRITE") },
			func(ts *testServer, _ *disk) { ts.client().do("CLIENT", "UNPAUSE") }, ":1\r\n",
		},
		{
			"decision", "RL.TAKE n GCRA 1/m WAIT 2m",
			func(ts *testServer) { ts.client().do("RL.TAKE", "n", "GCRA", "1/m") },
			func(ts *testServer, _ *disk) { ts.clock.Advance(time.Minute); ts.engine.Wake(ts.clock.Now()) }, "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60000\r\n",
		},
		{"work", "SAVE", func(*testServer) {}, func(_ *testServer, d *disk) { d.saving <- nil }, "+OK\r\n"},
		{"sleep", "DEBUG SLEEP 1.5", func(*testServer) {}, func(*testServer, *disk) { time.Sleep(1500 * time.Millisecond) }, "+OK\r\n"},
		{
			"guess", "AUTH secret",
			func(ts *testServer) {
				ts.client().do("CONFIG", "SET", "requirepass", "secret")
				for range auth.Burst {
					ts.client().do("AUTH", "wrong")
				}
			},
			func(ts *testServer, _ *disk) { ts.passAuth(time.Minute) }, "+OK\r\n",
		},
	} {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, d := newDiskServer(t, "enable-debug-command yes")
				kind.before(ts)
				c := ts.client()
				got := c.raw(string(encode(strings.Fields(kind.command)...)) + "INCR behind\r\n")
				for range 3 {
					c.s.Resume()
					got += string(c.conn.take())
				}
				if got != "" || c.s.pending == nil {
					t.Fatalf("it does not wait: %q", got)
				}
				kind.event(ts, d)
				for i := 0; i < 3 && c.s.pending != nil; i++ {
					got += c.resume()
				}
				for range 3 {
					c.s.Resume()
					got += string(c.conn.take())
				}
				if want := kind.want + ":1\r\n"; got != want {
					t.Errorf("%q, not %q", got, want)
				}
				if n := ts.Server.clients.Parked.Load(); n != 0 || c.s.pending != nil {
					t.Errorf("%d sessions wait, this one for %T", n, c.s.pending)
				}
				if got := c.raw("INCR behind\r\n"); got != ":2\r\n" {
					t.Errorf("then %q", got)
				}
			})
		})
	}
}
