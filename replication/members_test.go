package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"limitdb/replication/peers"
)

// newPeer listens as the node with a raft-id, whose incarnation is 1, of a cluster. No node is behind it.
func newPeer(t *testing.T, name, cluster string) (l *peers.Layer, address string) {
	t.Helper()
	address = freeAddress(t)
	port, err := peers.Listen(address, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l = port.Layer(0)
	l.Self = func() peers.Hello {
		return peers.Hello{From: peers.ServerID(name, "1"), Cluster: cluster, Client: "client-" + name, Reads: Format, Writes: Format}
	}
	l.Serve()
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), port.Close()); err != nil {
			t.Error(err)
		}
	})
	return l, address
}

// A new member that does not get the log has no vote, so the others continue without
// it.
func TestNoVoteBeforeTheLog(t *testing.T) {
	t.Parallel()
	table := &list{states: map[string]string{}}
	a, err := openAt(realOptions(t, "a", table), Disk{Dir: filepath.Join(t.TempDir(), "a"), Bootstrap: true}, freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a leader", func() bool { return a.Turn() != 0 })
	_, deaf := newPeer(t, "b", a.parts.who.cluster()) // it says who it is, and reads nothing that Raft sends
	added := make(chan error, 1)
	go func() {
		err := a.Add("b", deaf)
		for errors.Is(err, ErrUnreachable) { // the process was held up
			err = a.Add("b", deaf)
		}
		added <- err
	}()
	until(t, "a member", func() bool {
		all, err := a.Members()
		if err != nil || len(all) < 2 {
			return false
		}
		if all[1].ID != "b" || all[1].Voter {
			t.Fatalf("members: %+v", all)
		}
		return true
	})
	turn := a.Turn()
	if turn == 0 || !table.decide("1", "k") {
		t.Fatal("it does not decide")
	}
	done := make(chan error, 1)
	a.Wait(turn, func(err error) { done <- err })
	a.Kick()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := a.Promote("b"); err == nil {
		t.Error("it gets a vote without the log")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-added; err == nil {
		t.Error("it was added")
	}
}

// A node of the cluster that is no member is refused while the leader is heard.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	a, err := openAt(realOptions(t, "a", &list{states: map[string]string{}}), Disk{Dir: filepath.Join(t.TempDir(), "a"), Bootstrap: true}, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	stranger, _ := newPeer(t, "x", a.parts.who.cluster())
	until(t, "a leader", func() bool { return a.Turn() != 0 })
	for _, c := range []peers.Call{peers.CallRaft, peers.CallClients} {
		if _, _, err := stranger.Call(c, address, a.o.server, peers.Timeout); err == nil || !strings.Contains(err.Error(), "x is not a member") && c == peers.CallRaft {
			t.Errorf("call %d: %v", c, err)
		}
	}
	if _, _, err := stranger.Call(peers.CallAsk, address, "a", peers.Timeout); err != nil {
		t.Error(err)
	}
}

// The leader that a node hears may make further connections to it, also while the node has no list of members: the snapshot that has the list comes over one.
func TestLeaderIsAdmittedBeforeTheMembersAreKnown(t *testing.T) {
	t.Parallel()
	address, cluster := freeAddress(t), "d701eb19da0d3a89"
	a, err := openAt(realOptions(t, "a", &list{states: map[string]string{}}), Disk{Dir: filepath.Join(t.TempDir(), "a")}, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	leader, at := newPeer(t, "l", cluster)
	w := peers.NewTransport(leader, hclog.NewNullLogger())
	defer func() { _ = w.Close() }()
	var resp raft.AppendEntriesResponse
	req := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("l@1"), Addr: []byte(at)}, Term: 2, PrevLogEntry: 5, PrevLogTerm: 2,
	}
	if err := w.AppendEntries(raft.ServerID(a.o.server), raft.ServerAddress(address), req, &resp); err != nil || resp.Success {
		t.Fatalf("%+v, %v", resp, err)
	}
	conn, _, err := leader.Call(peers.CallRaft, address, a.o.server, peers.Timeout)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	stranger, _ := newPeer(t, "x", cluster)
	if _, _, err := stranger.Call(peers.CallRaft, address, a.o.server, peers.Timeout); err == nil || !strings.Contains(err.Error(), "x is not a member") {
		t.Errorf("a stranger: %v", err)
	}
}

// While a node receives a snapshot, it neither votes nor answers heartbeats. If the third node is down, the leader steps
// down meanwhile. The transfer ends all the same, and one of the two leads.
func TestSnapshotWhileTheThirdNodeIsDown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var addresses [3]string
	var tables [3]*list
	var nodes [3]*Node
	begin := func(i int) {
		id := string(rune('a' + i))
		tables[i] = &list{states: map[string]string{}}
		o := realOptions(t, id, tables[i])
		o.Heartbeat, o.Election, o.Lease, o.TrailingBytes = 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond, 1
		var err error
		if nodes[i], err = openAt(o, Disk{Dir: filepath.Join(dir, id), Bootstrap: i == 0}, addresses[i]); err != nil {
			t.Fatal(err)
		}
	}
	end := func(i int) {
		if err := nodes[i].Close(); err != nil {
			t.Error(err)
		}
	}
	decide := func(d, key string) (at int) {
		until(t, "a decision", func() bool {
			for i, n := range nodes {
				turn := n.Turn()
				if turn == 0 || !tables[i].decide(d, key) {
					continue
				}
				done := make(chan error, 1)
				n.Wait(turn, func(err error) { done <- err })
				n.Kick()
				at = i
				return <-done == nil
			}
			return false
		})
		return at
	}
	for i := range nodes {
		addresses[i] = freeAddress(t)
		begin(i)
	}
	for i := 1; i < 3; i++ {
		until(t, "the others are added", func() bool {
			at := decide("before", "k")
			all, err := nodes[at].Members()
			return err == nil && len(all) > i || nodes[at].Add(string(rune('a'+i)), addresses[i]) == nil
		})
	}
	at := decide("before", "k")
	behind, third := (at+1)%3, (at+2)%3
	until(t, "all vote", func() bool {
		s := nodes[at].Status()
		return s.Voters == 3
	})
	end(behind)
	large := strings.Repeat("x", 250_000)
	const keys = 64 // sent in 0.5 s, which is longer than the timeouts
	for i := range keys {
		decide(large, fmt.Sprint("large", i))
	}
	for range trailingLeast + 1 {
		decide("d", "k")
	}
	for _, i := range []int{at, third} {
		until(t, "a snapshot", func() bool { return nodes[i].Snapshot() == nil })
	}
	end(third)
	begin(behind)
	until(t, "the node has the snapshot", func() bool { newest, _ := nodes[behind].parts.snapshots.newest(); return newest != nil })
	decide("after", "k")
	until(t, "both have one state", func() bool { return maps.Equal(tables[at].snapshot(), tables[behind].snapshot()) })
	if got := tables[at].snapshot(); !strings.HasSuffix(got["k"], ".after.") || len(got) != keys+1 {
		t.Errorf("%d keys", len(got))
	}
	t.Logf("the nodes have begun %d epochs", nodes[at].Status().Epochs+nodes[behind].Status().Epochs)
	end(at)
	end(behind)
}

// Every node, also one that does not lead, knows how far the others are, and since when one has not answered.
func TestMembersThatAreDown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ids := []string{"a", "b", "c"}
	var nodes []*Node
	var addresses []string
	for i, id := range ids {
		addresses = append(addresses, freeAddress(t))
		n, err := openAt(realOptions(t, id, &list{states: map[string]string{}}), Disk{Dir: filepath.Join(dir, id), Bootstrap: i == 0}, addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = n.Close() }()
		nodes = append(nodes, n)
	}
	until(t, "a leader", func() bool { return nodes[0].Turn() != 0 })
	for i := 1; i < 3; i++ {
		add(t, nodes[0], ids[i], addresses[i])
	}
	sees := func(n *Node, right func(m Member) bool) bool {
		all, err := n.Members()
		return err == nil && len(all) == 3 && !slices.ContainsFunc(all, func(m Member) bool { return !right(m) })
	}
	for _, n := range nodes {
		until(t, "all are known to have the log", func() bool {
			return sees(n, func(m Member) bool {
				return m.Client != "" && m.Last+5 > n.raft.LastIndex() && m.Contact >= 0 && m.Self == (m.Contact == 0)
			})
		})
	}
	if err := nodes[2].Close(); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes[:2] {
		until(t, "c does not answer", func() bool {
			return sees(n, func(m Member) bool { return (m.Client == "") == (m.ID == "c") && m.Last > 0 })
		})
		contact := func() (ns int64) {
			sees(n, func(m Member) bool {
				if m.ID == "c" {
					ns = m.Contact
				}
				return true
			})
			return ns
		}
		before := contact()
		until(t, "it has not answered for longer and longer", func() bool { return before > 0 && contact() > before+int64(askEvery) })
	}
}
