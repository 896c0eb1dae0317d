package server

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/server/clients"
	"limitdb/server/spec"
)

// A client that knows no groups sends any commands to any node, in pieces, while groups get other leaders and uplinks end. Each command is executed
// once, or not at all if its reply says so, those on one key in their order, and the replies come in the order of the commands.
func TestRoundModel(t *testing.T) {
	n := newGroupNodes(t)
	n.shares()
	name := 0
	rapid.Check(t, func(rt *rapid.T) {
		name++
		m := &roundModel{T: rt, n: n, name: name, at: rapid.IntRange(0, 2).Draw(rt, "node"), keys: map[string]*counted{}, taken: map[string]*counted{}, skipped: map[int]bool{}}
		m.c = n.nodes[m.at].client()
		defer m.c.hangUp(clients.ErrEOF)
		for range rapid.IntRange(1, 60).Draw(rt, "commands") {
			m.command()
		}
		m.send()
		m.receive()
	})
}

// roundModel is a client of a node and the commands that it sends, with what their replies may say.
type roundModel struct {
	*rapid.T
	n    *groupNodes
	c    *testClient
	at   int // its node
	name int // no other client of the test has keys with it

	lines       []string
	checks      []func(reply string) // of the replies; "" for
	skipped     map[int]bool         // those that the client does not get
	keys, taken map[string]*counted
	cut, moved  bool
}

// counted is how often a key has been counted, at least and at most. A command whose outcome is unknown may be executed later, also behind others.
type counted struct{ low, high int }

// key picks a key.
func (m *roundModel) key() string {
	g := rapid.IntRange(1, 4).Draw(m.T, "group")
	key := fmt.Sprintf("{%s}%d:%d", m.n.key(g), m.name, rapid.IntRange(0, 1).Draw(m.T, "key"))
	if m.keys[key] == nil {
		m.keys[key], m.taken[key] = &counted{}, &counted{}
	}
	return key
}

// command adds any command, or those of a transaction.
func (m *roundModel) command() {
	key := m.key()
	v := m.keys[key]
	switch rapid.SampledFrom([]string{"incr", "incr", "incr", "take", "take", "take", "get", "eval", "multi", "ping", "skip", "none"}).Draw(m.T, "command") {
	case "incr":
		m.counts(v, "INCR "+key, whole)
	case "eval":
		m.counts(v, `EVAL "return{redis.call('INCR',KEYS[1])}" 1 `+key, whole)
	case "take":
		period := "h"
		if strings.Contains(key, ":1") {
			period = "d"
		}
		m.counts(m.taken[key], "RL.TAKE {"+key+"}t GCRA 500/"+period, func(reply string) (int, bool) {
			words := strings.Fields(strings.Trim(reply, "[]"))
			if len(words) != 5 {
				return 0, false
			}
			left, err := strconv.Atoi(words[2])
			return 500 - left, err == nil
		})
	case "get":
		command := "GET " + key
		m.add(command, func(reply string) {
			now, ok := whole(strings.Replace(reply, "nil", "0", 1))
			switch {
			case reply == "-"+errUnknownOutcome, notBegun(reply):
			case !ok || now < v.low || now > v.high:
				m.bad(command, reply, v)
			default:
				v.low = now
			}
		})
	case "multi":
		m.add("MULTI", m.is("OK"))
		m.add("INCR "+key, m.is("QUEUED"))
		m.counts(v, "EXEC", whole)
	case "ping":
		word := strconv.Itoa(len(m.checks))
		m.add("PING "+word, m.is(strconv.Quote(word)))
	case "skip":
		m.lines = append(m.lines, "CLIENT REPLY SKIP")
		m.skipped[len(m.checks)] = true
		m.add("INCR "+key, func(string) {
			if v.high++; !m.cut && !m.moved { // a node that has just stopped leading refuses it, and nobody hears of it
				v.low++
			}
		})
	case "none":
		command := "DEL {" + key + "}none"
		m.add(command, func(reply string) {
			if reply != "0" && reply != "-"+errUnknownOutcome && !notBegun(reply) {
				m.Fatalf("%q: %s", command, reply)
			}
		})
	}
}

// add adds a command and the check of its reply.
func (m *roundModel) add(command string, check func(reply string)) {
	m.lines, m.checks = append(m.lines, command), append(m.checks, check)
}

// counts adds a command that counts a key once more, whose reply says how often it has been counted.
func (m *roundModel) counts(v *counted, command string, parse func(reply string) (int, bool)) {
	m.add(command, func(reply string) {
		now, ok := parse(reply)
		switch {
		case reply == "-"+errUnknownOutcome:
			v.high++
		case notBegun(reply):
		case !ok || now < v.low+1 || now > v.high+1:
			m.bad(command, reply, v)
		default:
			v.low, v.high = now, v.high+1
		}
	})
}

// is returns the check of a reply that is known.
func (m *roundModel) is(want string) func(string) {
	return func(reply string) {
		if reply != want {
			m.Fatalf("%s, want %s", reply, want)
		}
	}
}

func (m *roundModel) bad(command, reply string, v *counted) {
	m.Fatalf("%q: %s, after %d to %d; cut: %v", command, reply, v.low, v.high, m.cut)
}

// whole returns the number that a reply has.
func whole(reply string) (int, bool) {
	n, err := strconv.Atoi(strings.Trim(reply, `[]"`))
	return n, err == nil
}

// notBegun reports whether a reply says that nobody has begun the command.
func notBegun(reply string) bool {
	return reply == "-"+spec.ErrNoLeader || strings.HasPrefix(reply, "-EXECABORT") && strings.HasSuffix(reply, spec.ErrNoLeader)
}

// send sends the commands in pieces, between which anything may happen.
func (m *roundModel) send() {
	var pending []byte
	for _, line := range m.lines {
		if strings.Contains(line, `"`) || rapid.IntRange(0, 9).Draw(m.T, "inline") == 0 {
			pending = append(pending, line+"\r\n"...)
		} else {
			pending = append(pending, encode(strings.Fields(line)...)...)
		}
	}
	m.c.conn.take()
	for len(pending) > 0 {
		k := min(len(pending), rapid.IntRange(1, 900).Draw(m.T, "bytes"))
		m.c.s.Data(pending[:k])
		pending = pending[k:]
		m.event()
	}
}

// event lets something happen to the cluster, or the session go on.
func (m *roundModel) event() {
	switch rapid.SampledFrom([]string{"pass", "pass", "late", "cut", "go", "go", "go"}).Draw(m.T, "event") {
	case "pass":
		m.passes(0)
	case "late":
		m.passes(20)
	case "cut":
		if to := rapid.IntRange(0, 2).Draw(m.T, "cut"); to != m.at {
			m.cut = true
			m.n.links[m.at][to].Load().Close()
			m.n.connect(m.at, to)
		}
	case "go":
		m.goesOn(50)
	}
}

// passes gives a group another leader. Meanwhile the session goes on.
func (m *roundModel) passes(meanwhile int) {
	m.moved = true
	m.n.passes(rapid.IntRange(1, 4).Draw(m.T, "of"), rapid.IntRange(0, 2).Draw(m.T, "to"), func() { m.goesOn(meanwhile) })
}

// goesOn resumes the session, as the transport would, if it is woken in some time.
func (m *roundModel) goesOn(times int) {
	for range times {
		select {
		case <-m.c.conn.woken:
			m.c.s.Resume()
		default:
			runtime.Gosched()
		}
	}
}

// receive checks the replies, and then how often each key has been counted.
func (m *roundModel) receive() {
	got := m.c.receive(len(m.checks) - len(m.skipped))
	for i, check := range m.checks {
		if m.skipped[i] {
			check("")
			continue
		}
		check(got[0])
		got = got[1:]
	}
	for key, v := range m.keys {
		now, _ := whole(strings.Replace(m.c.send("GET "+key+"\r\n", 1)[0], "nil", "0", 1))
		if now < v.low || now > v.high {
			m.Fatalf("%s is %d, want %d to %d", key, now, v.low, v.high)
		}
	}
	if f := m.c.s.fwd; f != nil && (f.away() || f.live != 0 || len(f.free) > 0) {
		m.Fatalf("the round is not over")
	}
}
