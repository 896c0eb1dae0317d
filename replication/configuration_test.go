package replication

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"limitdb/replication/peers"
)

// A cluster of several groups begins with its groups, and group 0 last. Who are members is for the owner of the nodes to say: each change is
// refused if it was computed from another configuration than the current one.
func TestGroupsOfTheirOwner(t *testing.T) {
	t.Parallel()
	dir, names := t.TempDir(), []string{"a", "b"}
	var addresses []string
	var ports []*peers.Port
	for range names {
		addresses = append(addresses, freeAddress(t))
		p, err := peers.Listen(addresses[len(addresses)-1], nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		ports = append(ports, p)
	}
	disk := func(i, group int) Disk {
		return Disk{Dir: filepath.Join(dir, names[i], []string{"0", "1"}[group]), Group: group, Groups: 1, Port: ports[i], Bootstrap: i == 0}
	}
	open := func(i, group int, d Disk) *Node {
		o := realOptions(t, names[i], &list{states: map[string]string{}})
		o.Surveyed = true
		o.Asks = func(c net.Conn, from string) {
			_, _ = c.Write([]byte(from))
			_ = c.Close()
		}
		n, err := Open(o, d)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return n
	}

	zero := disk(0, 0)
	if who, err := Known(zero.Dir); who != (Identity{}) || err != nil {
		t.Errorf("nothing is known as %+v, %v", who, err)
	}
	who, begun, err := Found("a", zero)
	if err != nil || begun || who.Cluster == "" || !who.Began || who.Groups != 1 || who.ID != "a" {
		t.Fatalf("%+v, %v, %v", who, begun, err)
	}
	one := disk(0, 1)
	one.Cluster = who.Cluster
	if again, begun, err := Found("", zero); again != who || begun || err != nil {
		t.Errorf("found again: %+v, %v, %v", again, begun, err)
	}
	a := open(0, 1, one)
	until(t, "group 1", func() bool { return a.Turn() != 0 })
	first := open(0, 0, zero)
	until(t, "group 0", func() bool { return first.Turn() != 0 })
	if known, err := Known(one.Dir); err != nil || known.Cluster != who.Cluster || known.Incarnation == who.Incarnation {
		t.Errorf("group 1: %+v, %v", known, err)
	}
	for what, d := range map[string]Disk{
		"another cluster":          {Dir: one.Dir, Group: 1, Groups: 1, Cluster: "other", Port: ports[0]},
		"another number of groups": {Dir: one.Dir, Group: 1, Groups: 2, Cluster: who.Cluster, Port: ports[0]},
	} {
		if _, err := Open(realOptions(t, "a", &list{}), d); !errors.Is(err, ErrDirectory) {
			t.Errorf("%s: %v", what, err)
		}
	}

	joins := disk(1, 1)
	joins.Cluster = who.Cluster
	b := open(1, 1, joins)
	was, err := a.Configuration()
	if err != nil || was.Pending || was.Index == 0 || len(was.Servers) != 1 || was.Servers[0].Node != "a" || !was.Servers[0].Voter || !was.Servers[0].CaughtUp {
		t.Fatalf("%+v, %v", was, err)
	}
	incarnation := peers.IncarnationOf(b.Says().From)
	if err := b.Alter(Learn, "a", "x", addresses[0], 0); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a change by a node that does not lead: %v", err)
	}
	if err := a.Alter(Learn, "b", incarnation, addresses[1], was.Index); err != nil {
		t.Fatal(err)
	}
	if err := a.Alter(Expel, "b", incarnation, "", was.Index); err == nil {
		t.Fatal("a change that was computed from an earlier configuration is made")
	}
	caughtUp := func() (now Configuration) {
		until(t, "b has caught up", func() bool {
			now, err = a.Configuration()
			return err == nil && !now.Pending && len(now.Servers) == 2 && now.Servers[1].CaughtUp
		})
		return now
	}
	if now := caughtUp(); now.Servers[1].Voter || now.Servers[1].Incarnation != incarnation || now.Index <= was.Index {
		t.Errorf("%+v", now)
	}
	if err := a.Alter(Vote, "b", incarnation, "", caughtUp().Index); err != nil {
		t.Fatal(err)
	}
	if now := caughtUp(); !now.Servers[1].Voter {
		t.Errorf("%+v", now)
	}

	// The nodes learn from their owner who answers.
	answers := func(at *Node, server string) bool {
		all, err := at.Members()
		return err == nil && slices.ContainsFunc(all, func(m Member) bool { return m.server == server && m.Client != "" })
	}
	a.Told([]peers.Hello{b.Says()})
	if !answers(a, b.Says().From) {
		t.Error("a node that answers")
	}
	a.Told([]peers.Hello{{From: b.Says().From}})
	if answers(a, b.Says().From) {
		t.Error("a node that does not answer any more")
	}
	b.Told([]peers.Hello{a.Says()})
	until(t, "b has what a had", func() bool { return !b.Status().Behind })
	if leader, term := b.LeaderServer(); leader != "a" || term == 0 {
		t.Errorf("%s leads in term %d", leader, term)
	}
	until(t, "b knows who decides", func() bool { return b.Decides() == "a" })
	if got := a.Decides(); got != "a" {
		t.Errorf("%s decides", got)
	}
	if err := a.Confirm(); err != nil {
		t.Error(err)
	}
	if err := b.Confirm(); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a node that does not lead: %v", err)
	}
	c, h, err := b.Call(peers.CallGroups, addresses[0], "a")
	if err != nil || h.From != a.Says().From {
		t.Fatalf("%+v, %v", h, err)
	}
	if said, err := io.ReadAll(c); string(said) != b.Says().From || err != nil {
		t.Errorf("%q, %v", said, err)
	}
	_ = c.Close()
	if err := a.Alter(Demote, "b", incarnation, "", caughtUp().Index); err != nil {
		t.Error(err)
	}
	if err := a.Alter(Expel, "b", incarnation, "", caughtUp().Index); err != nil {
		t.Error(err)
	}

	// The index of the configuration is known from a snapshot as well.
	until(t, "b is gone", func() bool { now, err := a.Configuration(); return err == nil && !now.Pending && len(now.Servers) == 1 })
	last, _ := a.Configuration()
	if err := errors.Join(a.Snapshot(), a.Close()); err != nil {
		t.Fatal(err)
	}
	a = open(0, 1, one)
	if now, err := a.Configuration(); err != nil || now.Index != last.Index || now.Pending {
		t.Errorf("after a start %+v, %v, before %+v", now, err, last)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, begun, err := Found("a", zero); !begun || err != nil {
		t.Errorf("a cluster that has begun: %v, %v", begun, err)
	}
}

// A group without keys need not carry the time on every second.
func TestIdleGroupRests(t *testing.T) {
	t.Parallel()
	empty := true
	p := newPrimary(nil, func() int64 { return 0 }, newLifetime(), nil)
	p.idle = func() time.Duration {
		if empty {
			return 10 * idle
		}
		return idle
	}
	p.lease = time.Second
	if rest := p.rest(); rest != 10*idle {
		t.Error(rest)
	}
	p.mu.Lock()
	p.confirmed()
	p.mu.Unlock()
	if until := p.until.Load(); until != int64(10*idle+time.Second) {
		t.Error(until)
	}
	empty = false
	if rest := p.rest(); rest != idle {
		t.Error(rest)
	}
}
