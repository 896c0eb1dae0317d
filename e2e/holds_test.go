package e2e

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/resp"
)

// holdLimits are limits from which nothing comes back by itself for weeks, so what is taken of them is the sum of all holds. A state
// of LOG is long, and a key of it is used for a few holds only.
var holdLimits = [...]struct {
	limit string
	most  int64
	each  int // holds of a client on one key
}{
	{"FIXED 1000000000/30d FIRST", 1_000_000_000, 5000},
	{"LOG 60000/30d", 60_000, 400},
}

const (
	shortTTL = 200 * time.Millisecond
	// settledKnown is for how long the server knows an ID that was settled, less some time for the tests' clock.
	settledKnown = 29 * time.Second
)

// heldID is what a client knows of a hold: what is taken of it in the end is between least and most.
type heldID struct {
	id, key     string
	least, most int64
	// open: the hold stays. It is of this amount.
	open   bool
	amount int64
	// settled: it was committed or cancelled, and charged was the answer.
	settled bool
	charged int64
}

// holder is a client that holds estimates and settles them. What it does not know the outcome of it sends again, which must count once.
type holder struct {
	number int
	rand   *rand.Rand
	addr   func() string // a node's
	conn   net.Conn
	r      *bufio.Reader
	held   []heldID
	tries  int // how often the last command was sent, without those attempts that have done nothing
	again  int // how many commands were sent again
	done   *atomic.Int64
}

// run makes holds until stop is closed. It returns what must not be.
func (h *holder) run(stop <-chan struct{}) error {
	defer h.drop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		of := h.rand.IntN(len(holdLimits))
		one := heldID{id: fmt.Sprintf("%d-%d", h.number, n), amount: 1 + h.rand.Int64N(9), key: fmt.Sprintf("h:%d:%d", of, n/holdLimits[of].each)}
		if err := h.live(&one, strings.Fields(holdLimits[of].limit)); err != nil {
			return fmt.Errorf("%s of %s: %w", one.id, one.key, err)
		}
		h.held = append(h.held, one)
		h.done.Add(1)
	}
}

func (h *holder) drop() {
	if h.conn != nil {
		_ = h.conn.Close()
		h.conn = nil
	}
}

// do sends a command until it is answered, also by an error that is not of a node.
func (h *holder) do(words ...string) (v resp.Value, err error) {
	h.tries = 0
	for end := time.Now().Add(deadline); time.Now().Before(end); {
		if h.conn == nil {
			if h.conn, err = net.Dial("tcp", h.addr()); err != nil {
				h.conn = nil
				time.Sleep(5 * time.Millisecond) // a client's pace
				continue
			}
			h.r = bufio.NewReader(h.conn)
			_ = h.conn.SetDeadline(time.Now().Add(deadline))
		}
		if h.tries++; h.tries == 2 {
			h.again++
		}
		if _, err = h.conn.Write(resp.AppendCommand(nil, words...)); err == nil {
			v, err = resp.ReadReply(h.r, 1<<20)
		}
		if err != nil {
			h.drop()
			continue
		}
		switch word, _, _ := strings.Cut(v.Text, " "); {
		case v.Err() == nil:
			return v, nil
		case word == "CLUSTERDOWN" || word == "TRYAGAIN" || word == "LOADING": // nothing was done
			h.tries--
			h.drop()
			time.Sleep(5 * time.Millisecond) // a client's pace
		case word == "UNKNOWNOUTCOME":
			h.drop()
		default:
			return v, nil
		}
	}
	return v, fmt.Errorf("%q is not answered: %w", words, err)
}

// hold makes a hold, and reports by which error it was refused.
func (h *holder) hold(one *heldID, limit []string, ttl time.Duration, whenOver string) (refused string, err error) {
	v, err := h.do(slices.Concat([]string{"RL.HOLD", one.key}, limit, []string{
		"COST", strconv.FormatInt(one.amount, 10), "TTL", strconv.FormatInt(ttl.Milliseconds(), 10), "ID", one.id, "ONEXPIRE", whenOver,
	})...)
	switch {
	case err != nil:
		return "", err
	case v.Err() != nil:
		refused, _, _ = strings.Cut(v.Text, " ")
		return refused, nil
	case len(v.Elems) != 5 || v.Elems[0].Int != 0:
		return "", fmt.Errorf("it is answered %+v", v)
	}
	return "", nil
}

// live makes a hold and ends it in one of many ways.
func (h *holder) live(one *heldID, limit []string) error {
	switch n := h.rand.IntN(20); {
	case n < 13:
		return h.settle(one, limit, n)
	case n < 15:
		return h.commitSoon(one, limit)
	case n < 17:
		return h.cancelFirst(one, limit)
	case n < 18:
		refused, err := h.hold(one, limit, shortTTL, "keep")
		if refused != "" && (refused != "HELD" || h.tries == 1) {
			return fmt.Errorf("it is refused: %s", refused)
		}
		one.least, one.most = one.amount, one.amount*int64(h.tries) // the ID may be forgotten when it is sent again
		return err
	}
	refused, err := h.hold(one, limit, shortTTL, "return")
	if refused != "" && (refused != "HELD" || h.tries == 1) {
		return fmt.Errorf("it is refused: %s", refused)
	}
	return err
}

// settle makes a hold that lasts, and commits it, cancels it, or leaves it.
func (h *holder) settle(one *heldID, limit []string, n int) error {
	if refused, err := h.hold(one, limit, time.Hour, []string{"keep", "return"}[n%2]); err != nil || refused != "" {
		return fmt.Errorf("it is refused: %q, %w", refused, err)
	}
	one.least, one.most = one.amount, one.amount
	if n < 3 {
		one.open = true
		return nil
	}
	actual := h.rand.Int64N(13)
	commit := []string{"RL.COMMIT", one.key, "ID", one.id, "COST", strconv.FormatInt(actual, 10)}
	if n < 6 {
		actual, commit = 0, []string{"RL.CANCEL", one.key, "ID", one.id}
	}
	one.least, one.most, one.settled, one.charged = actual, actual, true, actual-one.amount
	for i, began := 0, time.Now(); i < 1+n%2; i++ {
		if i > 0 { // it is settled: this counts nothing
			commit = []string{"RL.COMMIT", one.key, "ID", one.id, "COST", strconv.FormatInt(20+h.rand.Int64N(9), 10)}
		}
		v, err := h.do(commit...)
		if err != nil {
			return err
		}
		forgotten := (h.tries > 1 || i > 0) && time.Since(began) > settledKnown
		switch {
		case v.Err() == nil && v.Kind == ':' && (v.Int == one.amount || v.Int == 0 && forgotten):
		case v.Err() == nil && len(v.Elems) == 5 && v.Elems[0].Int == one.charged && v.Elems[1].Int == 0:
		case v.Err() != nil && strings.HasPrefix(v.Text, "NOHOLD ") && forgotten:
		default:
			return fmt.Errorf("%q is answered %+v, and %d were held", commit, v, one.amount)
		}
		if forgotten { // a cancel that is sent again is remembered as one of an ID that was never held
			one.settled = false
			break
		}
	}
	return nil
}

// commitSoon commits a hold of a short time, which may be over by then, or even forgotten.
func (h *holder) commitSoon(one *heldID, limit []string) error {
	refused, err := h.hold(one, limit, shortTTL, "return")
	sure := h.tries == 1
	if err != nil || refused != "" && (refused != "HELD" || sure) {
		return fmt.Errorf("it is refused: %q, %w", refused, err)
	}
	actual := h.rand.Int64N(13)
	v, err := h.do("RL.COMMIT", one.key, "ID", one.id, "COST", strconv.FormatInt(actual, 10))
	if err != nil {
		return err
	}
	sure = sure && h.tries == 1
	one.most = actual * int64(h.tries)
	switch {
	case v.Err() == nil && len(v.Elems) == 5:
		one.least = actual
		if c := v.Elems[0].Int; c != actual-one.amount && c != actual { // in its time, or when the estimate has gone back
			return fmt.Errorf("a commit of %d charges %d, and %d were held", actual, c, one.amount)
		}
	case v.Err() != nil && strings.HasPrefix(v.Text, "NOHOLD "):
		if sure {
			one.most = 0
		}
	default:
		return fmt.Errorf("a commit is answered %+v", v)
	}
	return nil
}

// cancelFirst cancels a hold before it is made.
func (h *holder) cancelFirst(one *heldID, limit []string) error {
	began := time.Now()
	if v, err := h.do("RL.CANCEL", one.key, "ID", one.id); err != nil || v.Err() != nil || v.Int != 0 {
		return fmt.Errorf("a cancel of what is not held: %+v, %w", v, err)
	}
	refused, err := h.hold(one, limit, time.Hour, "keep")
	switch {
	case err != nil:
		return err
	case refused == "" && time.Since(began) > settledKnown:
		one.least, one.most, one.open = one.amount, one.amount, true
	case refused != "CANCELLED":
		return fmt.Errorf("a hold that was cancelled before is answered %q", refused)
	}
	return nil
}

// holders are the clients of one test.
type holders struct {
	all     []*holder
	done    atomic.Int64 // holds that have ended
	running sync.WaitGroup
	stop    chan struct{}
}

// startHolders starts clients. addr returns the address of a node for a number.
func startHolders(t *testing.T, addr func(n int) string) *holders {
	hs := &holders{stop: make(chan struct{})}
	seed := rand.Uint64()
	for i := range 8 {
		h := &holder{number: i, rand: rand.New(rand.NewPCG(seed, uint64(i))), done: &hs.done}
		h.addr = func() string { return addr(h.rand.IntN(1 << 20)) }
		hs.all = append(hs.all, h)
		hs.running.Go(func() {
			if err := h.run(hs.stop); err != nil {
				t.Errorf("client %d, seed %d: %v", i, seed, err)
				hs.done.Add(1 << 40) // nobody waits for what does not come
			}
		})
	}
	return hs
}

// more waits until the clients have ended so many more holds.
func (hs *holders) more(t *testing.T, n int64) {
	t.Helper()
	from := hs.done.Load()
	eventually(t, fmt.Sprint(n, " more holds"), func() bool { return hs.done.Load() >= from+n })
}

// end stops the clients.
func (hs *holders) end() {
	close(hs.stop)
	hs.running.Wait()
}

// check compares what a server says of all keys with what the clients know.
func (hs *holders) check(t *testing.T, addr string) {
	t.Helper()
	byKey := map[string]map[string]*heldID{}
	again := 0
	for _, h := range hs.all {
		again += h.again
		for i := range h.held {
			one := &h.held[i]
			if byKey[one.key] == nil {
				byKey[one.key] = map[string]*heldID{}
			}
			byKey[one.key][one.id] = one
		}
	}
	unsure, total := int64(0), int64(0)
	for key, ids := range byKey {
		least, most := int64(0), int64(0)
		for _, one := range ids {
			least, most = least+one.least, most+one.most
		}
		of := holdLimits[key[2]-'0']
		used := int64(0)
		if !holdsUntil(func() bool { // the last estimates go back
			v := one(t, addr, slices.Concat([]string{"RL.PEEK", key}, strings.Fields(of.limit), []string{"COST", "0"})...)
			if v.Err() != nil || len(v.Elems) != 5 {
				t.Fatalf("%s: %+v", key, v)
			}
			used = of.most - v.Elems[2].Int
			return used <= most
		}) || used < least {
			t.Errorf("%d are taken from %s; by what the clients know, it is %d to %d", used, key, least, most)
		}
		unsure, total = unsure+most-least, total+used
		checkHolds(t, addr, key, ids)
	}
	t.Logf("%d holds on %d keys, %d commands sent again; %d are taken, of which %d are not sure", hs.done.Load(), len(byKey), again, total, unsure)
}

// holdsUntil waits for a condition, for as long as several short holds take at most.
func holdsUntil(cond func() bool) bool {
	for end := time.Now().Add(deadline / 4); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return false
}

// checkHolds compares the list of a key's holds with what the clients know of them.
func checkHolds(t *testing.T, addr, key string, ids map[string]*heldID) {
	t.Helper()
	v := one(t, addr, "RL.HOLDS", key, "COUNT", "1000000")
	if v.Err() != nil {
		t.Fatal(v.Err())
	}
	listed := map[string]bool{}
	for _, e := range v.Elems {
		id, status, amount := e.Elems[0].Text, e.Elems[1].Text, e.Elems[2].Int
		known := ids[id]
		listed[id] = true
		switch {
		case known == nil:
			t.Errorf("%s has a hold %s that nobody has made", key, id)
		case known.open && (status != "held" || amount != known.amount):
			t.Errorf("%s of %s is %s with %d, and %d are held", id, key, status, amount, known.amount)
		case known.settled && (status != "committed" && status != "cancelled" || amount != known.charged):
			t.Errorf("%s of %s is %s with %d, and was settled with %d", id, key, status, amount, known.charged)
		}
	}
	for id, known := range ids {
		if known.open && !listed[id] {
			t.Errorf("the hold %s of %s is lost", id, key)
		}
	}
}

// While leaders are killed, and nodes are stopped and start again, no hold is lost, and none is settled or given back twice.
func TestHoldsWhileLeadersAreKilled(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	var addresses []string
	for _, n := range nodes {
		n.bin = plainBinary(t)
		addresses = append(addresses, n.Addr)
	}
	hs := startHolders(t, func(n int) string { return addresses[n%len(addresses)] })
	for range rounds(2, 40) {
		hs.more(t, 200)
		at := leader(t, nodes)
		at.Kill()
		hs.more(t, 100) // which another leader has decided
		at.restartInPlace(t)
		follows(t, at)
		for _, n := range nodes {
			if n == at {
				continue
			}
			n.Stop()
			n.restartInPlace(t)
			follows(t, n)
			break
		}
		if t.Failed() {
			break
		}
	}
	hs.more(t, 200)
	hs.end()
	at := leader(t, nodes)
	hs.check(t, at.Addr)
	at.Kill()
	at.restartInPlace(t)
	hs.check(t, leader(t, nodes).Addr) // another may lead now
}

// follows waits until a node leads or follows a leader.
func follows(t *testing.T, n *raftNode) {
	t.Helper()
	eventually(t, n.id+" follows", func() bool {
		info := n.ask(t, "INFO", "replication")
		return strings.Contains(info, "master_link_status:up") || strings.Contains(info, "role:master")
	})
}

// Kills of one server that syncs before it answers lose no hold, and settle and give back none twice.
func TestHoldsWhileAServerIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-min-size", "100kb"}
	var addr atomic.Pointer[string]
	p := startIn(t, dir, args...)
	addr.Store(&p.Addr)
	hs := startHolders(t, func(int) string { return *addr.Load() })
	for range rounds(5, 100) {
		hs.more(t, 100)
		p.Kill()
		p = startIn(t, dir, args...)
		addr.Store(&p.Addr)
		if t.Failed() {
			break
		}
	}
	hs.more(t, 100)
	hs.end()
	hs.check(t, p.Addr)
	p.Stop()
	check(t, dir)
	p = startIn(t, dir, args...)
	hs.check(t, p.Addr)
}
