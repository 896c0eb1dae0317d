package server

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"limitdb/server/clients"
)

// Every text that a client can set about itself has the same bound, whichever command sets it, and
// counts towards maxmemory-clients.
func TestNamesAreBoundedAndAccounted(t *testing.T) {
	ts := newTestServer(t)
	long, most := strings.Repeat("x", clients.TextMost+1), strings.Repeat("y", clients.TextMost)
	for _, test := range []struct {
		set   []string
		wrong string
	}{
		{[]string{"HELLO", "2", "SETNAME"}, errClientName},
		{[]string{"CLIENT", "SETNAME"}, errClientName},
		{[]string{"CLIENT", "SETINFO", "LIB-NAME"}, errLibName},
		{[]string{"CLIENT", "SETINFO", "LIB-VER"}, errLibVer},
	} {
		c := ts.client()
		c.do("PING")
		idle := ts.clients.Bytes.Load()
		set := func(value string) string { return line(c.do(append(test.set, value)...)) }
		if got := set(long); got != "-"+clients.ErrLongText {
			t.Errorf("%v, %d bytes: %.80s", test.set, len(long), got)
		}
		if got := set("two words"); got != "-"+test.wrong {
			t.Errorf("%v, a blank: %.80s", test.set, got)
		}
		if got := ts.clients.Bytes.Load() - idle; got != 0 {
			t.Errorf("%v: %d bytes are counted for what is refused", test.set, got)
		}
		for _, value := range []string{"a", most, "abc"} {
			if got := set(value); strings.HasPrefix(got, "-") {
				t.Errorf("%v, %d bytes: %.80s", test.set, len(value), got)
			}
			if got := ts.clients.Bytes.Load() - idle; got != int64(len(value)) {
				t.Errorf("%v: %d bytes are counted for %d", test.set, got, len(value))
			}
		}
		c.raw(string(encode(append(test.set, "")...)))
		if got := ts.clients.Bytes.Load() - idle; got != 0 {
			t.Errorf("%v: %d bytes are counted for none", test.set, got)
		}
	}
}

// CLIENT LIST shows the memory of a client.
func TestClientListShowsMemory(t *testing.T) {
	ts := newTestServer(t)
	admin, c := ts.client(), ts.client()
	shown := func() map[string]int64 {
		t.Helper()
		list := admin.do("CLIENT", "LIST", "ID", fmt.Sprint(c.s.pub.ID)).Text
		fields := make(map[string]int64)
		for _, f := range regexp.MustCompile(`([a-z-]+)=(\d+)\b`).FindAllStringSubmatch(list, -1) {
			fields[f[1]], _ = strconv.ParseInt(f[2], 10, 64)
		}
		return fields
	}
	c.do("PING")
	idle := shown()
	if idle["qbuf"]+idle["argv-mem"]+idle["obl"]+idle["oll"]+idle["omem"] != 0 || idle["tot-mem"] < 500 || idle["tot-mem"] > 4000 {
		t.Errorf("idle: %v", idle)
	}
	own := string(encode("CLIENT", "INFO")) // it counts as what the client has sent, as in Redis
	if got := c.raw(own + own); !strings.Contains(got, fmt.Sprintf(" qbuf=%d ", 2*len(own))) || !strings.Contains(got, fmt.Sprintf(" qbuf=%d ", len(own))) {
		t.Errorf("of itself: %s", got)
	}
	part := "*2\r\n$4\r\nECHO\r\n$9000\r\n" + strings.Repeat("x", 5000)
	c.raw(part)
	got := shown()
	if n := int64(len(part)); got["qbuf"] != n || got["tot-mem"] < idle["tot-mem"]+n || got["tot-mem"] != idle["tot-mem"]+n+got["qbuf-free"]-idle["qbuf-free"] {
		t.Errorf("a part of a command, %d bytes: %v, idle %v", n, got, idle)
	}
	c.raw(strings.Repeat("x", 4000) + "\r\n")
	if got := shown(); got["qbuf"] != 0 || got["tot-mem"] != idle["tot-mem"] {
		t.Errorf("after the command: %v, idle %v", got, idle)
	}

	admin.do("CLIENT", "PAUSE", "1000000")
	c.s.Data(encode("ECHO", strings.Repeat("x", 7000)))
	if got := shown(); got["argv-mem"] < 7004 || got["argv-mem"] > 7100 || got["tot-mem"] != idle["tot-mem"]+got["argv-mem"] {
		t.Errorf("held back: %v, idle %v", got, idle)
	}
	admin.do("CLIENT", "UNPAUSE")
	c.resume()
	c.conn.pending = 100_000
	if got := shown(); got["argv-mem"] != 0 || got["oll"] != 2 || got["omem"] != 100_000 || got["tot-mem"] != idle["tot-mem"]+100_000 {
		t.Errorf("replies unsent: %v, idle %v", got, idle)
	}
}

// What a client watches and queues counts towards maxmemory-clients, with the bytes of the keys.
func TestTransactionsAreAccounted(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("PING")
	idle := ts.clients.Bytes.Load()
	held := func() int64 { return ts.clients.Bytes.Load() - idle }
	key := strings.Repeat("k", 4000)
	for i := range int64(10) {
		c.do("WATCH", key, key)
		if most := 2 * (i + 1) * 4200; held() < 2*(i+1)*4000 || held() > most {
			t.Fatalf("%d bytes are counted for %d keys", held(), 2*(i+1))
		}
	}
	watched := held()
	c.do("MULTI")
	c.do("SET", "a", key)
	if held() < watched+4000 || held() > watched+4200 {
		t.Errorf("%d bytes are counted with a command, %d without", held(), watched)
	}
	if c.do("EXEC"); held() != 0 {
		t.Errorf("%d bytes are counted after EXEC", held())
	}
}
