package torture

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"limitdb/internal/testlengths"
)

// With LIMITDB_LONG=1 a run takes ten minutes. LIMITDB_TORTURE gives another time. LIMITDB_SEED repeats the faults of a run, though not
// their moments.
const (
	shortRun = 6 * time.Second // or until each kind of fault was there
	longRun  = 10 * time.Minute
	// calmEvery is after how long everything is healed, and the nodes' states are compared.
	calmEvery = 10 * time.Second
	clients   = 8
)

func TestTorture(t *testing.T) { isolated(t, torture) }

// isolated runs a test again in namespaces of its own: a network in which the firewall leads the nodes' traffic through proxies, mounts for
// disks that get full, and processes, so that none outlives it.
func isolated(t *testing.T, test func(t *testing.T)) {
	if os.Getenv("LIMITDB_TORTURE_BINARY") != "" {
		syscall.Umask(0o022) // the nodes' users pass through directories of the test's
		test(t)
		return
	}
	isolate := []string{"unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"}
	if os.Getuid() != 0 {
		isolate = append([]string{"sudo", "--non-interactive", "--preserve-env"}, isolate...)
	}
	for _, tool := range []string{"ip link set lo up", "iptables -t nat -L OUTPUT", "mount -t tmpfs none /mnt"} {
		if msg, err := exec.Command(isolate[0], append(isolate[1:], strings.Fields(tool)...)...).CombinedOutput(); err != nil {
			lacking(t, "this needs root, and unshare, ip, iptables and tmpfs: %s in a namespace: %v: %s", tool, err, msg)
		}
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "limitdb")
	if msg, err := exec.Command("go", "build", "-tags", "testclock", "-ldflags=-s -w", "-o", binary, "limitdb/cmd/limitdb").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	for d := binary; d != "/"; d = filepath.Dir(d) { // for the nodes' users
		if st, err := os.Stat(d); err == nil && st.Mode().Perm()&0o005 != 0o005 {
			if err := os.Chmod(d, st.Mode().Perm()|0o055); err != nil {
				t.Fatal(err)
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(isolate[1:], self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=3h")
	cmd := exec.Command(isolate[0], args...)
	cmd.Env = append(os.Environ(), "LIMITDB_TORTURE_BINARY="+binary, "LIMITDB_TORTURE_DIR="+dir)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// lacking ends the test because the machine lacks something. In CI, where LIMITDB_E2E=1, it fails.
func lacking(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("LIMITDB_E2E") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// sh runs a command that must succeed.
func sh(t *testing.T, words string) {
	t.Helper()
	f := strings.Fields(words)
	if msg, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", words, err, msg)
	}
}

func duration(t *testing.T) time.Duration {
	if s := os.Getenv("LIMITDB_TORTURE"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if os.Getenv("LIMITDB_LONG") == "1" {
		return longRun
	}
	return shortRun
}

func torture(t *testing.T) {
	c, seed, total := begin(t, 1)
	defer c.report()
	h := newHistories(t, 10*time.Minute)
	l := startLoad(t, c, seed)
	for i := range clients {
		w := c.client(seed + uint64(i) + 1)
		l.work.Go(func() { h.run(w, i, &l.gate, l.stop) })
	}
	inFlight := new(flights)
	for i := range 6 {
		x := &flyer{asker: asker{client: c.client(seed + uint64(i) + 400), t: t}, of: inFlight}
		l.work.Go(func() { x.run(&l.gate, l.stop) })
	}
	c.whenCalm = func(leader *node) { inFlight.check(t, leader, false) }
	l.run(total, func() {})
	if y := h.enter(); y != nil {
		h.leave(y, true)
	}
	h.checks.Wait()
	if leader := c.leader(); leader != nil {
		l.check(leader, c.epochs(""))
		inFlight.check(t, leader, true)
	}
	t.Logf("%d operations in %d histories, %d of them undecided; %v; %v; %d epochs; faults: %v", h.operations, h.checked, h.undecided, l, inFlight, c.epochs(""), c.counts)
	if h.undecided > 0 {
		t.Errorf("porcupine did not come to an end of %d histories", h.undecided)
	}
}

// begin starts a cluster of several groups, and says with what seed and for how long it is to be tortured.
func begin(t *testing.T, groups int) (c *cluster, seed uint64, total time.Duration) {
	seed = rand.Uint64()
	if s := os.Getenv("LIMITDB_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	total = duration(t)
	t.Logf("LIMITDB_SEED=%d, for %v", seed, total)
	return startCluster(t, seed, groups), seed, total
}

// load is what clients do meanwhile, but for the histories: counts, values, and holds.
type load struct {
	t           *testing.T
	c           *cluster
	gate        sync.RWMutex // held while the nodes are compared
	stop        chan struct{}
	work        sync.WaitGroup
	counts      *counts
	held        [2]*holder
	ids, values atomic.Int64
}

// startLoad starts the clients. Others may start with the load's gate, stop and work.
func startLoad(t *testing.T, c *cluster, seed uint64) *load {
	l := &load{t: t, c: c, stop: make(chan struct{}), counts: &counts{began: time.Now()}}
	lengths := testlengths.Read(t, longestText)
	for i := range 2 {
		w := c.client(seed + uint64(i) + 100)
		l.work.Go(func() { l.counts.run(t, w, &l.gate, l.stop) })
		x := &texts{client: c.client(seed + uint64(i) + 200), lengths: lengths, id: i, all: &l.values}
		l.work.Go(func() { x.run(t, &l.gate, l.stop) })
		h := &holder{asker: asker{client: c.client(seed + uint64(i) + 300), t: t}, number: i, all: &l.ids}
		l.held[i] = h
		l.work.Go(func() { h.run(&l.gate, l.stop) })
	}
	return l
}

// run deals faults, with a calm now and then, and ends the clients' work. whole is called after each calm.
func (l *load) run(total time.Duration, whole func()) {
	c, end := l.c, time.Now().Add(total)
	goesOn := func() bool { return (time.Now().Before(end) || c.dealt < c.faultKinds()) && !l.t.Failed() }
	for goesOn() {
		for calm := time.Now().Add(calmEvery); time.Now().Before(calm) && goesOn(); {
			c.expire(false)
			c.oneFault()
			time.Sleep(time.Duration(100+c.rand.IntN(600)) * time.Millisecond)
		}
		c.calm(&l.gate)
		whole()
	}
	close(l.stop)
	l.work.Wait()
}

// check compares what a leader says with what the clients know.
func (l *load) check(leader *node, epochs int) {
	l.counts.check(l.t, leader, epochs)
	for _, x := range l.held {
		x.check(leader)
	}
}

func (l *load) String() string {
	return fmt.Sprintf("%v; %d commands on values; %d ids that are held or count once, %d commands of them sent again",
		l.counts, l.values.Load(), l.ids.Load(), l.held[0].again+l.held[1].again)
}

func startCluster(t *testing.T, seed uint64, groups int) *cluster {
	sh(t, "ip link set lo up")
	base := filepath.Join(os.Getenv("LIMITDB_TORTURE_DIR"), "nodes")
	if err := os.Mkdir(base, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, rand: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), net: newNetwork(), counts: map[string]int{}, groups: groups, changing: make(chan struct{}, 1)}
	count := replicas + 1
	if groups > 1 {
		count = maxNodes
	}
	for i := range count {
		c.nodes = append(c.nodes, newNode(t, base, i, groups))
	}
	for _, from := range c.nodes {
		for _, to := range c.nodes {
			if from == to {
				continue
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go c.net.proxy(listener, from.number, to.number, to.raft)
			_, port, _ := net.SplitHostPort(to.raft)
			_, proxy, _ := net.SplitHostPort(listener.Addr().String())
			c.net.ports[from.number][to.number] = proxy
			sh(t, fmt.Sprintf("iptables -w -t nat -A OUTPUT -p tcp -m owner --uid-owner %d -d 127.0.0.1 --dport %s -j REDIRECT --to-ports %s", firstUID+from.number, port, proxy))
		}
	}
	for i, n := range c.members() {
		if i == 0 {
			n.start(t, "--raft-bootstrap", "yes")
			c.await("the first node leads", func() bool { return c.leader() == n || !n.up() })
			continue
		}
		n.start(t)
		if !c.asLeader("RAFT", "SERVER", "ADD", n.id, n.raft) {
			t.Fatalf("%s cannot be added\n%s", n.id, c.nodes[0].tail(20))
		}
	}
	rules := flightRules
	if groups > 1 {
		rules = strings.TrimSuffix(rules, "}}") + ", " + crossRules + "}}"
	}
	c.await("the rules", func() bool {
		l := c.leader()
		if l == nil {
			return false
		}
		_, err := l.ask("RL.RULES", "LOAD", "'"+rules+"'")
		return err == nil
	})
	return c
}

func (c *cluster) client(seed uint64) *client {
	w := &client{rand: rand.New(rand.NewPCG(seed, 2))}
	for _, n := range c.members() {
		w.addrs = append(w.addrs, n.addr)
	}
	return w
}

// patience is how long the test waits for a healed cluster.
const patience = 5 * time.Minute

func (c *cluster) await(what string, done func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	c.t.Errorf("never, in a cluster that is healed: %s", what)
}

// calm heals everything, and compares the nodes' states where their indexes are equal.
func (c *cluster) calm(gate *sync.RWMutex) {
	c.expire(true)
	c.net.heal()
	c.changes.Wait()
	c.note("calm")
	c.await("a leader", func() bool { return c.leader() != nil })
	gate.Lock()
	defer gate.Unlock()
	var from uint64
	c.await("the leader's index", func() bool {
		l := c.leader()
		if l == nil {
			return false
		}
		i, err := l.info()
		from, _ = strconv.ParseUint(i["raft_last_index"], 10, 64)
		return err == nil && from > 0
	})
	hashes := map[string]map[string]string{} // index → node → hash
	c.await("a hash of all nodes at one index", func() bool {
		all := c.members()
		if c.joined {
			all = c.nodes
		}
		for _, n := range all {
			n.start(c.t) // its disk may have been full, and it may have taken its time to end
			i, err := n.info()
			if err != nil {
				continue
			}
			at, _ := strconv.ParseUint(i["raft_state_hash_index"], 10, 64)
			if at < from {
				continue
			}
			if hashes[i["raft_state_hash_index"]] == nil {
				hashes[i["raft_state_hash_index"]] = map[string]string{}
			}
			hashes[i["raft_state_hash_index"]][n.id] = i["raft_state_hash"]
		}
		for _, of := range hashes {
			if len(of) >= replicas {
				return true
			}
		}
		return false
	})
	for index, of := range hashes {
		first := ""
		for id, hash := range of {
			if first == "" {
				first = hash
			}
			if hash != first {
				c.t.Errorf("at entry %s, %s has another state: %v", index, id, of)
			}
		}
	}
	if l := c.leader(); l != nil && c.whenCalm != nil {
		c.whenCalm(l)
	}
}

// epochs returns how many epochs the nodes have seen begin, of all groups or of one.
func (c *cluster) epochs(of string) int {
	seen := map[string]bool{}
	for _, n := range c.nodes {
		b, err := os.ReadFile(n.log)
		if err != nil {
			c.t.Error(err)
		}
		for l := range strings.Lines(string(b)) {
			if strings.Contains(l, "an epoch begins") && strings.Contains(l, of) {
				_, epoch, _ := strings.Cut(l, "epoch=")
				epoch, _, _ = strings.Cut(epoch, " ")
				seen[epoch] = true
			}
		}
	}
	return len(seen)
}

// report shows the history, if the test has failed.
func (c *cluster) report() {
	if !c.t.Failed() {
		return
	}
	for _, l := range c.history {
		c.t.Log(l)
	}
	for _, n := range c.nodes {
		c.t.Logf("%s:\n%s", n.id, n.tail(60))
	}
}
