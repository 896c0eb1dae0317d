package torture

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"limitdb/internal/testlengths"
	"limitdb/resp"
)

// Some keys hold strings, whose lengths are about the constants of the code. Each is its client's own, so a client knows
// what its key holds as long as all its commands are answered. After another outcome it takes a new key: the command may
// run later.

// longestText is the longest text that is drawn.
const longestText = 9000

// valueExpiry is far longer than the clocks of nodes are wrong.
const valueExpiry = 1_000_000

// texts are the strings of one client.
type texts struct {
	*client
	lengths testlengths.Lengths
	id      int
	number  int
	now     string // what the key holds
	all     *atomic.Int64
}

func (x *texts) key() string { return fmt.Sprintf("text%d:%d", x.id, x.number) }

func (x *texts) run(t *testing.T, gate *sync.RWMutex, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		gate.RLock()
		x.step(t)
		gate.RUnlock()
	}
}

// long returns a text of a length that is mostly about a constant of the code.
func (x *texts) long(most int) string {
	return strings.Repeat(string('a'+rune(x.rand.IntN(26))), x.lengths.Draw(x.rand.IntN, most))
}

// step sends some commands, and compares the replies with what a plain string would give.
func (x *texts) step(t *testing.T) {
	var commands [][]string
	var want []string
	add := func(reply string, words ...string) {
		commands, want = append(commands, words), append(want, reply)
	}
	now := x.now
	for range 1 + x.rand.IntN(4) {
		switch n := x.rand.IntN(8); {
		case n == 0 || now == "" || len(now) > longestText:
			now = x.long(longestText) + "."
			add("OK", "SET", x.key(), now, "EX", strconv.Itoa(valueExpiry))
		case n < 4:
			more := x.long(60)
			now += more
			add(strconv.Itoa(len(now)), "APPEND", x.key(), more)
		case n < 6:
			at := x.rand.IntN(len(now))
			now = now[:at] + "x" + now[at+1:]
			add(strconv.Itoa(len(now)), "SETRANGE", x.key(), strconv.Itoa(at), "x")
		case n == 6:
			add("1", "EXPIRE", x.key(), strconv.Itoa(valueExpiry+1+x.rand.IntN(1000)))
		default:
			now = x.long(300) + "."
			add("OK", "SET", x.key(), now, "KEEPTTL")
		}
	}
	add(now, "GET", x.key())
	lines := make([]string, len(commands))
	for i, words := range commands {
		lines[i] = string(resp.AppendCommand(nil, words...))
	}
	values, outcomes := x.call(lines...)
	for i, o := range outcomes {
		if o == answered && plainReply(values[i]) == want[i] {
			continue
		}
		if o == answered || o == violation {
			t.Errorf("%.60q is answered with %d bytes %.60q, want %d bytes %.60q", commands[i], len(plainReply(values[i])), plainReply(values[i]), len(want[i]), want[i])
		}
		x.number++
		x.now = ""
		return
	}
	x.now = now
	x.all.Add(int64(len(commands)))
}

// plainReply returns a reply as text.
func plainReply(v resp.Value) string {
	if v.Kind == ':' {
		return strconv.FormatInt(v.Int, 10)
	}
	return v.Text
}
