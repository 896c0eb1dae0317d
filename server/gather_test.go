package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"limitdb/server/audit"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// late replaces the uplink from one node to another by one over which bytes may be late.
func (n *groupNodes) late(from, to int) *lateConn {
	near, far := net.Pipe()
	late := newLateConn(far)
	host := uplink.NewHost(n.nodes[to].Server, func() {}, n.nodes[to].clock, n.nodes[to].clock.Now)
	go func() { _ = host.Serve(late) }()
	l := uplink.NewLink(near)
	n.t.Cleanup(l.Close)
	n.links[from][to].Store(l)
	return late
}

// begins sends a command, as ask does, and returns what waits for the reply.
func (n *groupNodes) begins(at int, direct bool, words ...string) (reply func() string) {
	if direct {
		got := make(chan string, 1)
		go func() { got <- n.ask(at, true, words...) }()
		return func() string { return <-got }
	}
	c := n.nodes[at].client()
	c.s.Data(encode(words...))
	return func() string { return c.receive(1)[0] }
}

// A command on the keys of all groups is counted once for each group, also if one of the nodes that it asks leads no more when it comes there.
func TestGatheredOnceForEachGroup(t *testing.T) {
	for _, direct := range []bool{false, true} {
		n := newGroupNodes(t)
		n.rulesAre("version: 1\nnamespaces:\n  n:\n    - {name: r, key: [u], limit: fixed 5/h, in_flight: 2, lease: 60s}\n")
		user := ""
		for i := 0; user == ""; i++ { // whose states are in groups 2 and 3
			var has [5]bool
			for _, quoted := range strings.Fields(strings.Trim(n.ask(0, false, "RL.RULES", "KEYS", "n", "r", "u", strconv.Itoa(i)), "[]")) {
				key, err := strconv.Unquote(quoted)
				if err != nil {
					t.Fatal(err)
				}
				has[n.nodes[0].groupOf([]byte(key)).Number] = true
			}
			if has[2] && has[3] {
				user = strconv.Itoa(i)
			}
		}
		for _, words := range [][]string{{"DBSIZE"}, {"RL.RULES", "RESET", "n", "r", "u", user}} {
			n.ask(0, false, "FLUSHALL")
			if got := n.ask(0, false, "RL.CHECK", "n", "1", "u", user); !strings.HasPrefix(got, "[0 ") {
				t.Fatal(got)
			}
			keys := n.nodes[1].every[2].Engine.Load().Stats().Keys + n.nodes[2].every[3].Engine.Load().Stats().Keys
			late := n.late(0, 1)
			late.set(func() { late.held = true })
			reply := n.begins(0, direct, words...)
			late.arrived(words[0])
			n.move(2, 2)
			late.set(func() { late.held = false })
			want := "2"
			if words[0] == "DBSIZE" {
				want = fmt.Sprint(keys)
			}
			if got := reply(); got != want {
				t.Errorf("direct %v, %s: %s, want %s", direct, words, got, want)
			}
			n.move(2, 1)
		}
	}
}

// If a node is lost that a command on the keys of all groups has asked, or leads no more, one that only reads asks the node that leads then. If there is
// none, only what another command has done is unknown.
func TestGatheredFromALostNode(t *testing.T) {
	for _, direct := range []bool{false, true} {
		for _, step := range []struct {
			command    string
			lost, next bool // the node is lost; another one leads then
			want       string
		}{
			{"DBSIZE", true, true, "40"},
			{"DBSIZE", true, false, "-" + spec.ErrNoLeader},
			{"DBSIZE", false, false, "-" + spec.ErrNoLeader},
			{"FLUSHALL", true, true, "-" + errUnknownOutcome},
			{"FLUSHALL", true, false, "-" + errUnknownOutcome},
			{"FLUSHALL", false, false, "-" + errUnknownOutcome}, // another node has done it
		} {
			n := newGroupNodes(t)
			c, srv := n.nodes[0].client(), n.nodes[0]
			for i := range 40 {
				c.gets("SET key"+strconv.Itoa(i)+" v\r\n", "OK")
			}
			late := n.late(0, 1)
			late.set(func() { late.held = true })
			reply := n.begins(0, direct, step.command)
			late.arrived(step.command)
			n.nodes[2].every[2].Engine.Store(n.nodes[1].every[2].Engine.Load())
			n.follow(2)
			if step.lost {
				n.links[0][1].Load().Close()
			} else {
				late.set(func() { late.held = false })
			}
			unknown := func() bool { return srv.counters.unknownOutcomes.Load() > 0 }
			for srv.leaderless.Len() == 0 && !unknown() {
				runtime.Gosched()
			}
			if step.next {
				n.lead(2, 2)
			} else {
				srv.clock.Advance(leaderWait)
				srv.LeaderChanged()
			}
			if got := reply(); got != step.want {
				t.Errorf("direct %v, %+v: %s", direct, step, got)
			}
			if unknown() != (step.want == "-"+errUnknownOutcome) {
				t.Errorf("direct %v, %+v: it is counted as unknown: %v", direct, step, unknown())
			}
		}
	}
}

// If the node that gathers loses the lead itself, before its own reply is known to be right, a command that only reads asks the node that leads then. If
// there is none, only what another command has done is unknown.
func TestGatheringNodeLosesTheLead(t *testing.T) {
	rules := "version: 1\nnamespaces:\n  n:\n    - {name: r, key: [u], limit: fixed 5/h}\n"
	for _, step := range []struct {
		command string
		early   bool // before the others have answered
		next    bool // another one leads then
		want    string
	}{
		{"DBSIZE", false, true, "42"},
		{"DBSIZE", false, false, "-" + spec.ErrNoLeader},
		{"DBSIZE", true, true, "42"},
		{"DBSIZE", true, false, "-" + spec.ErrNoLeader},
		{"KEYS key7", false, true, `["key7"]`},
		{"RL.TOP", false, true, "["},
		{"RL.RULES INFO n r u 1", false, true, `["algorithm"`},
		{"RANDOMKEY", false, true, ""}, // any key
		{"FLUSHALL", false, true, "-" + errUnknownOutcome},
	} {
		for _, direct := range []bool{false, true} {
			n := newGroupNodes(t)
			n.rulesAre(rules)
			c, srv := n.nodes[0].client(), n.nodes[0]
			for i := range 40 {
				c.gets("SET key"+strconv.Itoa(i)+" v\r\n", "OK")
			}
			for i := range 2 {
				n.ask(0, false, "RL.CHECK", "n", "1", "u", strconv.Itoa(i))
			}
			var held atomic.Bool // a reply of node 0 for group 1
			known := make(chan struct{})
			lost := func(turn uint64) error {
				if turn == 0 || turn != n.turns[0][1].Load() {
					return errUnknown
				}
				return nil
			}
			own := srv.every[1].Keeper.Source
			own.Holds = func() bool { return true }
			own.Wait = func(turn uint64, fn func(error)) bool {
				if held.Store(true); lost(turn) != nil {
					fn(errUnknown)
					return true
				}
				go func() {
					<-known
					fn(lost(turn))
				}()
				return true
			}
			late := n.late(0, 1)
			late.set(func() { late.held = step.early })
			reply := make(chan string, 1)
			begun := n.begins(0, direct, strings.Fields(step.command)...)
			go func() { reply <- begun() }()
			if step.early {
				late.arrived(step.command)
			} else {
				for !held.Load() {
					runtime.Gosched()
				}
			}
			n.nodes[1].every[1].Engine.Store(srv.every[1].Engine.Load())
			n.follow(1)
			if step.next {
				n.lead(1, 1)
			}
			late.set(func() { late.held = false })
			close(known)
			if !step.next {
				for srv.leaderless.Len() == 0 && len(reply) == 0 {
					runtime.Gosched()
				}
				srv.clock.Advance(leaderWait)
				srv.LeaderChanged()
			}
			if got := <-reply; !strings.HasPrefix(got, step.want) || got[0] == '-' && step.want == "" {
				t.Errorf("direct %v, %+v: %s", direct, step, got)
			}
		}
	}
}

// What changes the keys of groups at other nodes, too, is in the audit log of the node that was asked, in every way.
func TestGatheredChangesAreAudited(t *testing.T) {
	n := newGroupNodes(t)
	there := audited{testServer: n.nodes[0], path: filepath.Join(t.TempDir(), "audit")}
	log, err := audit.Open(audit.Options{Path: there.path, MaxBytes: 1 << 20, Strict: func() bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	there.opts.Audit = log
	for way, direct := range map[string]bool{"resp": false, "http": true} {
		if got := n.ask(0, direct, "FLUSHALL"); got != "OK" {
			t.Error(got)
		}
		if got := there.lines(); !strings.Contains(got, way+" flushall") || !strings.Contains(got, "\nOK") {
			t.Errorf("%s: %s", way, got)
		}
	}
	n.ask(0, false, "SET", n.key(2), "v")
	if err := errors.Join(log.Close(), os.Remove(there.path), os.Mkdir(there.path, 0o700)); err != nil { // a folder is in the place of the file
		t.Fatal(err)
	}
	for _, direct := range []bool{false, true} {
		if got := n.ask(0, direct, "FLUSHALL"); !strings.HasPrefix(got, "-MISCONF the audit log cannot be written") {
			t.Errorf("direct %v: %s", direct, got)
		}
	}
	if got := n.ask(0, false, "GET", n.key(2)); got != `"v"` {
		t.Error(got)
	}
}
