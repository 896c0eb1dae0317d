package replication

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk/disktest"
	"limitdb/internal/testnet"
	"limitdb/replication/peers"
)

// freeAddress returns a loopback address on which nobody listens.
func freeAddress(t *testing.T) string { return testnet.FreeAddress(t) }

// realOptions are those of a node on files and TCP. Its tests are parallel, since they mostly wait for elections.
func realOptions(t *testing.T, id string, table Table) Options {
	began := time.Now()
	return Options{
		ID: id, Address: "client-" + id, Table: table, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Clock: Clock{Wall: func() int64 { return time.Now().UnixNano() }, Elapsed: func() int64 { return int64(time.Since(began)) }},
		Fatal: func(err error) { t.Error(err) },
		// A busy machine may hold up a test for longer than the defaults allow.
		Heartbeat: 4 * time.Second, Election: 4 * time.Second, Lease: 4 * time.Second, stall: time.Minute,
	}
}

// openAt starts a node that has a port of its own, at an address, which closes with it.
func openAt(o Options, d Disk, address string) (*Node, error) {
	port, err := peers.Listen(address, nil, o.Log)
	if err != nil {
		return nil, err
	}
	d.Port = port
	n, err := Open(o, d)
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	rest := n.parts.close
	n.parts.close = func() error { return errors.Join(rest(), port.Close()) }
	return n, nil
}

// until waits for something that other goroutines do.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	testnet.Until(t, what, done)
}

// tryAdd adds a node, again while it cannot be reached in time, and returns the outcome.
func tryAdd(t *testing.T, n *Node, id, address string) (err error) {
	t.Helper()
	until(t, id+" answers", func() bool {
		err = n.Add(id, address)
		return !errors.Is(err, ErrUnreachable)
	})
	return err
}

// add adds a node.
func add(t *testing.T, n *Node, id, address string) {
	t.Helper()
	if err := tryAdd(t, n, id, address); err != nil {
		t.Fatal(err)
	}
}

// Three nodes with files and TCP: one begins, the others are added, all are started again.
func TestNodesOnDisks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ids := []string{"a", "b", "c"}
	addresses := []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	tables := make([]*list, 3)
	nodes := make([]*Node, 3)
	startOne := func(i int, bootstrap bool, timeout time.Duration) {
		tables[i] = &list{states: map[string]string{}}
		o := realOptions(t, ids[i], tables[i])
		o.Heartbeat, o.Election, o.Lease = timeout, timeout, timeout
		var err error
		if nodes[i], err = openAt(o, Disk{Dir: filepath.Join(dir, ids[i]), Bootstrap: bootstrap}, addresses[i]); err != nil {
			t.Fatal(err)
		}
	}
	leader := func() (at int) {
		until(t, "a leader", func() bool {
			for i, n := range nodes {
				if n != nil && n.Turn() != 0 {
					at = i
					return true
				}
			}
			return false
		})
		return at
	}
	decide := func(d string) {
		at := leader()
		turn := nodes[at].Turn()
		if !tables[at].decide(d, "k") {
			t.Fatal("it does not decide")
		}
		done := make(chan error, 1)
		nodes[at].Wait(turn, func(err error) { done <- err })
		nodes[at].Kick()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	closeAll := func() { // at once: the last of them would first try to lead the others
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(func() {
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	const patient, quick = time.Second, 500 * time.Millisecond // at first a leads, and may not lose the lead
	startOne(0, true, patient)
	decide("1")
	startOne(1, false, patient)
	startOne(2, false, patient)
	for i := 1; i < 3; i++ {
		add(t, nodes[0], ids[i], addresses[i])
	}
	for i, n := range nodes { // each knows where clients reach the others, also who never leads
		until(t, "the addresses for clients", func() bool {
			all, err := n.Members()
			for j, m := range all {
				if m.ID != ids[j] || m.Client != "client-"+ids[j] || m.Self != (i == j) {
					return false
				}
			}
			return err == nil && len(all) == 3
		})
	}
	if s := nodes[0].Status(); !s.Leads || s.Leader != "client-a" || s.State != "leader" || s.Term == 0 || s.Applied == 0 || s.Epochs != 1 || s.LastContact != 0 {
		t.Errorf("the leader says %+v", s)
	}
	until(t, "a follower that knows its leader", func() bool {
		s := nodes[1].Status()
		return !s.Leads && s.Leader == "client-a" && s.State == "follower" && s.Epochs == 0 && s.Current && s.LastContact >= 0
	})
	if err := tryAdd(t, nodes[0], "b", addresses[0]); err == nil || !strings.Contains(err.Error(), "is a, and not b") {
		t.Errorf("another node's address for b: %v", err)
	}
	if err := nodes[1].Add("d", freeAddress(t)); !errors.Is(err, ErrNotLeader) {
		t.Errorf("added by a follower: %v", err)
	}
	if err := nodes[0].Snapshot(); err != nil {
		t.Error(err)
	}
	decide("2")
	closeAll()
	clear(nodes)
	startOne(0, true, quick)
	if s := nodes[0].Status(); !s.Behind {
		t.Errorf("a node that has heard nobody has caught up: %+v", s)
	}
	for i := 1; i < 3; i++ {
		startOne(i, false, quick)
	}
	decide("3")
	until(t, "all have caught up", func() bool {
		return !slices.ContainsFunc(nodes, func(n *Node) bool { s := n.Status(); return s.Behind || s.Unready() != "" })
	})
	until(t, "one state", func() bool {
		first := tables[0].snapshot()
		return first["k"] == ".1..2..3." && maps.Equal(first, tables[1].snapshot()) && maps.Equal(first, tables[2].snapshot())
	})
	n := nodes[leader()]
	lags := Member{Voter: true, Client: "a client's address", server: "it has nothing"}
	for name, m := range map[string]Member{
		"it lags": lags, "this node": {Voter: true, Client: lags.Client, Self: true}, "no voter": {Client: lags.Client}, "it is down": {Voter: true},
	} {
		if n.holdsUp(m) != (name == "it lags") {
			t.Errorf("%s: a node that leaves waits: %v", name, n.holdsUp(m))
		}
	}
	// A node that replays its log after a start comes by the epochs of other leaders. It forwards to the present one all the same.
	f := nodes[(leader()+1)%3]
	until(t, "it knows where clients reach the leader", func() bool {
		_, leader := f.raft.LeaderWithID()
		return f.parts.wire.Layer.Said(leader).Client != ""
	})
	f.replica.mu.Lock()
	present := f.replica.machine.epoch
	f.replica.machine.epoch.node++
	f.replica.mu.Unlock()
	if got := f.Leader() + f.Peer(); got != "" {
		t.Errorf("before the next epoch begins, %q leads", got)
	}
	f.survey.goal.Store(1 << 62)
	if f.Leader() != "client-"+n.ID() || f.Peer() != addresses[slices.Index(nodes, n)] {
		t.Errorf("a node that lags forwards to %q and redirects to %q", f.Peer(), f.Leader())
	}
	f.replica.mu.Lock()
	f.replica.machine.epoch = present
	f.replica.mu.Unlock()
	f.survey.goal.Store(1)
	members, err := nodes[1].Members()
	if err != nil || len(members) != 3 || !members[2].Voter {
		t.Errorf("%+v, %v", members, err)
	}
	closeAll()
}

func TestDirectoryOfAnotherNode(t *testing.T) {
	dir, bind := t.TempDir(), freeAddress(t)
	n, err := openAt(realOptions(t, "", &list{states: map[string]string{}}), Disk{Dir: dir}, bind)
	if err != nil {
		t.Fatal(err)
	}
	id := n.ID()
	if len(id) != 16 {
		t.Errorf("the id is %q", id)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct{ id, bind, want string }{
		"another node":    {"other", bind, "is the directory of node " + id},
		"all addresses":   {"", "0.0.0.0:7000", "peers cannot dial"},
		"off loopback":    {"", "192.0.2.1:7000", "not an IP address of loopback"},
		"a name":          {"", "localhost:7000", "not an IP address of loopback"},
		"any port":        {"", "127.0.0.1:0", "peers cannot dial"},
		"without a port":  {"", "127.0.0.1", "missing port"},
		"the same id":     {id, bind, ""},
		"no id, as at it": {"", bind, ""},
	} {
		n, err := openAt(realOptions(t, c.id, &list{states: map[string]string{}}), Disk{Dir: dir}, c.bind)
		switch {
		case c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", name, err)
		case err == nil:
			if n.ID() != id {
				t.Errorf("%s: the id is %q", name, n.ID())
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The only voter of a cluster leads without waiting for another leader, also when it is started again beside a member without a vote.
func TestLeadsAlone(t *testing.T) {
	t.Parallel()
	o := realOptions(t, "a", &list{states: map[string]string{}})
	o.Heartbeat, o.Election = time.Hour, time.Hour
	d, address := Disk{Dir: t.TempDir(), Bootstrap: true}, freeAddress(t)
	for range 2 {
		n, err := openAt(o, d, address)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the node leads", func() bool { return n.Turn() != 0 })
		if err := n.addServer(n.raft.AddNonvoter, "b@1", freeAddress(t)); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The end of a node that leads is as planned: it warns of nothing.
func TestEndOfALeaderWarnsOfNothing(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := realOptions(t, "a", &list{states: map[string]string{}})
	o.Log = slog.New(slog.NewTextHandler(&log, nil)) // which writes one line at a time
	n, err := openAt(o, Disk{Dir: t.TempDir(), Bootstrap: true}, freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the node leads", func() bool { return n.Turn() != 0 })
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if out := log.String(); !strings.Contains(out, "level=INFO msg=\"this node no longer leads\"") {
		t.Error(out)
	}
}

// A node that has abdicated in order to close may lead once more before it ends.
func TestClosedNodeDecidesNothing(t *testing.T) {
	t.Parallel()
	table := &list{states: map[string]string{}}
	n, err := openAt(realOptions(t, "a", table), Disk{Dir: t.TempDir(), Bootstrap: true}, freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the node leads", func() bool { return n.Turn() != 0 })
	first := n.Turn()
	n.Wait(first, func(error) { // Close has abdicated, and waits for this
		until(t, "the node leads again", func() bool { return n.Turn() > first })
	})
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if n.Turn() != 0 || table.decide("late", "k") {
		t.Error("a closed node decides")
	}
}

// Raft looks for these by their types.
func TestReplicaHasWhatIsOptional(t *testing.T) {
	var f raft.FSM = &replica{}
	if _, ok := f.(raft.ConfigurationStore); !ok {
		t.Error("no StoreConfiguration")
	}
	if _, ok := f.(raft.BatchingFSM); ok {
		t.Error("a batch of entries is applied at once")
	}
}

// failing is a log whose operations fail or take long.
type failing struct {
	*raft.InmemStore
	err  error
	hold chan struct{}
}

func (f *failing) StoreLogs(logs []*raft.Log) error {
	if f.hold != nil {
		<-f.hold
	}
	if f.err != nil {
		return f.err
	}
	return f.InmemStore.StoreLogs(logs)
}

func TestAnyErrorOfTheLogIsTheEnd(t *testing.T) {
	var ends []error
	broken := errors.New("broken")
	f := &failing{raft.NewInmemStore(), broken, nil}
	g := &guarded{elapsed: noTime, LogStore: f, StableStore: f, fatal: func(err error) { ends = append(ends, err) }}
	for range 2 {
		if err := g.StoreLog(&raft.Log{Index: 1}); !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	if len(ends) != 1 || !errors.Is(ends[0], broken) {
		t.Errorf("it ended with %v", ends)
	}
}

// While a node stops because a write has failed, Raft tries again. Nothing is written any more then: after a sync that failed, the next one may say
// that all is durable.
func TestNothingIsWrittenAfterAnError(t *testing.T) {
	m := &disktest.Faulty{Mem: disktest.New("/raft/1/log"), Err: syscall.EIO}
	log, err := openLog(m, "/raft/1/log", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{elapsed: noTime, LogStore: log, StableStore: raft.NewInmemStore(), fatal: func(error) {}}
	if err := g.StoreLogs([]*raft.Log{{Index: 1}, {Index: 2}}); err != nil {
		t.Fatal(err)
	}
	m.N = 2 // the sync after the write
	if err := g.StoreLog(&raft.Log{Index: 3}); !errors.Is(err, syscall.EIO) || !strings.HasPrefix(m.Hit, "sync") {
		t.Fatalf("%v, %s", err, m.Hit)
	}
	for what, write := range map[string]func() error{
		"a write": func() error { return g.StoreLog(&raft.Log{Index: 3}) },
		"a cut":   func() error { return g.DeleteRange(2, 2) },
		"a term":  func() error { return g.guard("a write of the term", func() error { return nil }) },
	} {
		if err := write(); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s after an error: %v", what, err)
		}
	}
	if last, _ := log.LastIndex(); last != 2 {
		t.Errorf("the log ends with %d", last)
	}
}

// A state of the largest size is an entry by itself. It reaches the other node, and does not cost the leader its leadership.
//
//test:norace
func TestLargestRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addresses := []string{freeAddress(t), freeAddress(t)}
	var nodes []*Node
	var tables []*list
	for i, id := range []string{"a", "b"} {
		tables = append(tables, &list{states: map[string]string{}})
		o := realOptions(t, id, tables[i])
		o.Heartbeat, o.Election, o.Lease = 10*time.Second, 10*time.Second, 10*time.Second // an entry of 8 MB is slow on a busy machine
		n, err := openAt(o, Disk{Dir: filepath.Join(dir, id), Bootstrap: i == 0}, addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = n.Close() }()
		nodes = append(nodes, n)
	}
	until(t, "a leader", func() bool { return nodes[0].Turn() != 0 })
	add(t, nodes[0], "b", addresses[1])
	turn := nodes[0].Turn()
	tables[0].decide("before", "a")
	tables[0].decide(strings.Repeat("x", MaxRecord), "b")
	tables[0].decide("after", "c")
	done := make(chan error, 1)
	nodes[0].Wait(turn, func(err error) { done <- err })
	nodes[0].Kick()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	until(t, "both have all", func() bool { return maps.Equal(tables[0].snapshot(), tables[1].snapshot()) })
	if nodes[0].Turn() != turn {
		t.Error("the leader has lost its leadership")
	}
}
