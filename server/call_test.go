package server

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"limitdb/resp"
	"limitdb/server/clients"
)

// alone runs a command that belongs to no client.
func (ts *testServer) alone(words ...string) resp.Value {
	ts.t.Helper()
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	c := httpCall{call: ts.newCall(ts.group, ts.clock.Now(), resp.RESP3, args)}
	if ts.several() {
		c.enter(choose(&c.call))
	}
	c.runAlone(c.group.Special.Load())
	r := bufio.NewReader(bytes.NewReader(c.Out))
	v, err := resp.ReadReply(r, 64<<20)
	if err != nil || r.Buffered() > 0 {
		ts.t.Fatalf("%q: the reply is %q: %v", words, c.Out, err)
	}
	return v
}

// Handlers run without a connection, as in a transaction or a script.
func TestCommandsThatAreNobodys(t *testing.T) {
	ts := newTestServer(t)
	for _, step := range [][2]string{
		{"CL.THROTTLE cell 1 2 60", "[0 2 1 -1 30]"},
		{"RL.TAKE k FIXED 2/m", "[0 2 1 -1 20000]"},
		{"RL.TAKE k FIXED 2/m COST 5 PARTIAL", "[0 2 0 -1 20000 1]"},
		{"RL.TAKE k FIXED 2/m WAIT 1h", "[1 2 0 20000 20000]"}, // nobody waits
		{"RL.TAKEALL 2 a b GCRA 5/m GCRA 5/m", "[0 -1 [0 5 4 -1 12000] [0 5 4 -1 12000]]"},
		{"RL.LEASE jobs 1 30s ID me", "[0 1 0 -1 30000]"},
		{"RL.LEASE jobs 1 30s ID you WAIT 1h", "[1 1 0 30000 30000]"},
		{"DEL k", "1"},
		{"KEYS j*", `["jobs"]`},
		{"DBSIZE", "4"},
		{"PING", "PONG"},
		{"RL.TAKE k", "-ERR wrong number of arguments for 'rl.take' command. Usage: "},
		{"NOSUCH", "-ERR unknown command 'NOSUCH'"},
		{"RL.PEEK " + strings.Repeat("k", 5000) + " GCRA 1/s", "-" + errKeyTooLong},
		{"CLIENT ID", "-ERR client|id needs a connection of its own"},
		{"MONITOR", "-ERR monitor needs a connection of its own"},
		{"SUBSCRIBE news", "-ERR subscribe needs a connection of its own"},
		{"SAVE", "-ERR save needs a connection of its own"},
	} {
		got := line(ts.alone(strings.Fields(step[0])...))
		if got != step[1] && !(step[1][0] == '-' && strings.HasPrefix(got, step[1])) {
			t.Errorf("%.60s\n got %s\nwant %s", step[0], got, step[1])
		}
	}
	if n := ts.Clients(); n != 0 {
		t.Errorf("%d clients are connected", n)
	}
}

// Every handler works without a client, unless its row says that it needs one.
func TestEveryCommandIsSomebodysOrNobodys(t *testing.T) {
	ts := newTestServer(t)
	for _, cmd := range ts.table.rows {
		if cmd.Run == nil {
			continue
		}
		words := []string{cmd.Name}
		if cmd.Parent != nil {
			words = []string{cmd.Parent.Name, cmd.Name}
		}
		if cmd.Example != "" {
			words = strings.Fields(cmd.Example)
		}
		for len(words) < max(cmd.Arity, -cmd.Arity) {
			words = append(words, "1")
		}
		ts.alone(words...)
		ts.alone(append(words, "1")...)
	}
}

// The gate also refuses commands that belong to no client.
func TestGateWithoutAClient(t *testing.T) {
	ts := newTestServer(t)
	ts.SetLoading(true)
	if got := line(ts.alone("RL.TAKE", "k", "GCRA", "1/s")); got != "-"+errLoading {
		t.Errorf("while loading: %s", got)
	}
	ts.SetLoading(false)
	ts.SetRefusing(clients.ErrEOF)
	if got := line(ts.alone("RL.TAKE", "k", "GCRA", "1/s")); !strings.HasPrefix(got, "-MISCONF") {
		t.Errorf("while the log cannot be written: %s", got)
	}
	if got := line(ts.alone("RL.PEEK", "k", "GCRA", "1/s")); got != "[0 1 0 -1 1000]" {
		t.Errorf("a read while the log cannot be written: %s", got)
	}
}
