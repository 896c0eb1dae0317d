package replication

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/journal"
)

// open reports whether this node's own epoch is open.
func (m *machine) open() bool { return m.own != id{} }

// world is some nodes, a log on which all of them agree, as Raft promises, and the proposals that are
// under way to it. It is more hostile than Raft: whoever has ever led may propose, and a proposal may
// be lost, come late, come more than once and in any order, under whatever term there is by then.
//
// The state of a key is the list of the decisions that made it. A decision adds its number, so a list that
// is no longer the start of a later one has lost a decision, and two nodes that both decide make such lists.
type world struct {
	t     *rapid.T
	rand  *rand.Rand
	term  uint64
	log   []logged
	air   [][]byte
	nodes []*worldNode
	ids   uint64
	now   int64

	decisions int
	replied   map[string][]string // decision → its keys
	pairs     map[string][]string // decision of two keys → its keys

	// The plain model: what the log says, after each entry.
	folds []folded
	ref   reference
}

type logged struct {
	b    []byte
	term uint64
}

// folded is the state after an entry.
type folded struct {
	table map[string]string
	clock int64
}

type worldNode struct {
	w       *world
	number  uint64
	m       machine
	table   map[string]string
	applied int
	// exact is the index from which on the table is what the log says: a snapshot's copy may be ahead of its fence.
	exact      int
	rebuilding bool
	published  *worldSnapshot
	writing    *worldSnapshot

	// While its epoch is open.
	dirty    []string // keys, in the order of their change
	sequence uint64   // of the last batch proposed
	drains   int      // begun
	accepted int
	held     []heldReply
}

type heldReply struct {
	drain    int
	decision string
	keys     []string
}

// worldSnapshot is a snapshot that is being written or was published.
type worldSnapshot struct {
	index int
	fence []byte
	table map[string]string
	exact int // as in worldNode
	drain int // it waits until this one is accepted; 0 while the copy goes on, or where it need not wait
}

// reference is the rule of the fence in plain code.
type reference struct {
	epoch id
	term  uint64
	seq   uint64
	seen  map[id]bool
	group []journal.Record
	most  int64
}

var worldKeys = []string{"a", "b", "c"}

func newWorld(t *rapid.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 0)), term: 1, replied: map[string][]string{}, pairs: map[string][]string{}}
	w.folds = []folded{{table: map[string]string{}}}
	w.ref.seen = map[id]bool{{}: true}
	for i := range 3 {
		w.nodes = append(w.nodes, &worldNode{w: w, number: uint64(i + 1), table: map[string]string{}})
	}
	return w
}

// ---- what happens

// enters appends a proposal to the log, and to the model.
func (w *world) enters() {
	if len(w.air) == 0 {
		return
	}
	i := 0
	if w.rand.IntN(30) == 0 {
		i = w.rand.IntN(len(w.air))
	}
	b := w.air[i]
	if w.rand.IntN(30) != 0 { // else it comes again
		w.air = slices.Delete(w.air, i, i+1)
	}
	w.log = append(w.log, logged{b, w.term})
	w.fold(b, w.term)
}

func (w *world) lose() {
	if len(w.air) > 0 {
		i := w.rand.IntN(len(w.air))
		w.air = slices.Delete(w.air, i, i+1)
	}
}

// fold is the model: it also checks that no accepted group has lost a decision.
func (w *world) fold(b []byte, term uint64) {
	e, err := parseEntry(b)
	if err != nil {
		w.t.Fatal(err)
	}
	before := w.folds[len(w.folds)-1]
	after := folded{table: maps.Clone(before.table), clock: before.clock}
	r := &w.ref
	switch {
	case e.kind == kindEpoch && e.after == r.epoch:
		if r.seen[e.epoch] {
			w.t.Fatalf("epoch %v begins twice", e.epoch)
		}
		r.seen[e.epoch] = true
		r.epoch, r.term, r.seq, r.group, r.most = e.epoch, term, 0, nil, 0
		after.clock = max(after.clock, e.clock)
	case e.kind == kindBatch && e.epoch == r.epoch && term == r.term && e.sequence == r.seq+1:
		r.seq++
		r.most = max(r.most, e.clock)
		r.group = append(r.group, parseRecords(w.t, e.records)...)
		if e.last {
			for _, rec := range r.group {
				w.extends(before.table[string(rec.Key)], string(rec.State), string(rec.Key))
				after.table[string(rec.Key)] = string(rec.State)
			}
			after.clock = max(after.clock, r.most)
			r.group, r.most = nil, 0
		}
	}
	for d, keys := range w.pairs {
		if has(after.table[keys[0]], d) != has(after.table[keys[1]], d) {
			w.t.Fatalf("the log has half of decision %s: %v", d, after.table)
		}
	}
	w.folds = append(w.folds, after)
}

func (w *world) extends(before, after, key string) {
	if !strings.HasPrefix(after, before) {
		w.t.Fatalf("key %s: %q does not go on from %q", key, after, before)
	}
}

func has(list, decision string) bool { return strings.Contains(list, "."+decision+".") }

func parseRecords(t *rapid.T, b []byte) (all []journal.Record) {
	for len(b) > 0 {
		r, rest, err := journal.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		all, b = append(all, r), rest
	}
	return all
}

// ask proposes an Epoch.
func (n *worldNode) ask() {
	n.w.ids++
	e := entry{kind: kindEpoch, epoch: id{n.number, n.w.ids}, after: n.m.epoch, clock: n.w.now}
	n.m.ask(e.epoch)
	n.w.air = append(n.w.air, e.appendTo(nil))
}

// decide takes from one key, or from two in one step.
func (n *worldNode) decide() {
	if !n.m.open() {
		return
	}
	w := n.w
	w.decisions++
	w.now++
	d := fmt.Sprint(w.decisions)
	keys := []string{worldKeys[w.rand.IntN(len(worldKeys))]}
	if w.rand.IntN(2) == 0 {
		keys = []string{"a", "b"}
		w.pairs[d] = keys
	}
	for _, k := range keys {
		n.table[k] += "." + d + "."
		if !slices.Contains(n.dirty, k) {
			n.dirty = append(n.dirty, k)
		}
	}
	n.held = append(n.held, heldReply{n.drains + 1, d, keys})
}

// drain proposes what has changed, as one group of one to three batches.
func (n *worldNode) drain() {
	if !n.m.open() {
		return
	}
	n.drains++
	batches := 1 + n.w.rand.IntN(3)
	for i := range batches {
		var buf journal.Buffer
		for j, k := range n.dirty {
			if j%batches == i {
				buf.Set(1, 201, []byte(k), []byte(n.table[k]))
			}
		}
		n.sequence++
		e := entry{kind: kindBatch, epoch: n.m.own, sequence: n.sequence, clock: n.w.now, last: i == batches-1, records: buf.Bytes}
		n.w.air = append(n.w.air, e.appendTo(nil))
	}
	n.dirty = nil
}

// next applies the next entry of the log.
func (n *worldNode) next() {
	w := n.w
	if n.applied == len(w.log) {
		return
	}
	l := w.log[n.applied]
	n.applied++
	if n.rebuilding {
		return // it only counts
	}
	e, err := parseEntry(l.b)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := n.m.apply(&e, l.term)
	if err != nil {
		w.t.Fatal(err)
	}
	if r.abdicate {
		n.abdicate()
	}
	if r.opened {
		n.dirty, n.sequence, n.drains, n.accepted, n.held = nil, 0, 0, 0, nil
		n.writing = nil
	}
	switch {
	case r.accepted && r.own:
		n.accepted++
		n.release()
	case r.accepted && !n.rebuilding:
		for _, rec := range parseRecords(w.t, r.records) {
			n.table[string(rec.Key)] = string(rec.State)
		}
	}
}

// release is what waits for an accepted group: replies, and a snapshot.
func (n *worldNode) release() {
	w := n.w
	for len(n.held) > 0 && n.held[0].drain <= n.accepted {
		h := n.held[0]
		n.held = n.held[1:]
		w.replied[h.decision] = h.keys
		for _, k := range h.keys {
			if !has(w.folds[n.applied].table[k], h.decision) {
				w.t.Fatalf("decision %s was answered and is not in the log", h.decision)
			}
		}
	}
	if s := n.writing; s != nil && s.drain > 0 && s.drain <= n.accepted {
		n.publish()
	}
}

// abdicate drops every decision that is not known to be in the log. The table is rebuilt.
func (n *worldNode) abdicate() {
	n.held, n.dirty, n.writing = nil, nil, nil
	n.rebuilding = true
}

// rebuild builds the table from the newest snapshot and the log up to the applied index.
func (n *worldNode) rebuild() {
	if !n.rebuilding {
		return
	}
	to := n.applied
	exact := n.load(n.published)
	n.rebuilding = false
	for n.applied < to {
		n.next()
	}
	n.exact = exact
}

// load makes a snapshot the node's state, nil for none.
func (n *worldNode) load(s *worldSnapshot) (exact int) {
	n.applied, n.table, n.rebuilding = 0, map[string]string{}, false
	f := fence{}
	if s != nil {
		var err error
		if f, err = parseFence(s.fence); err != nil {
			n.w.t.Fatal(err)
		}
		n.applied, n.table, exact = s.index, maps.Clone(s.table), s.exact
	}
	n.m.restore(f)
	return exact
}

// snapshot begins a snapshot: of the fence now, and of the table some time later.
func (n *worldNode) snapshot() {
	if n.rebuilding || n.writing != nil {
		return
	}
	n.writing = &worldSnapshot{index: n.applied, fence: n.m.appendTo(nil)}
}

// copied ends the copy of the table, while entries are applied and decisions are made.
func (n *worldNode) copied() {
	s := n.writing
	if s == nil || s.table != nil {
		return
	}
	s.table, s.exact = maps.Clone(n.table), max(n.applied, n.exact)
	if n.m.open() {
		s.drain = n.drains + 1
		return
	}
	n.publish()
}

func (n *worldNode) publish() {
	n.writing.exact = max(n.writing.exact, n.applied)
	n.published, n.writing = n.writing, nil
}

// install gives the node another's snapshot.
func (n *worldNode) install(from *worldNode) {
	if s := from.published; s != nil && s.index > n.applied {
		n.abdicate()
		n.exact = n.load(s)
		n.published = s
	}
}

// crash loses all but the published snapshot and the log.
func (n *worldNode) crash() {
	s, published := n.published, n.published
	to := n.applied
	*n = worldNode{w: n.w, number: n.number, published: published}
	n.exact = n.load(s)
	for n.applied < to && n.w.rand.IntN(10) > 0 {
		n.next()
	}
}

// ---- what must hold

func (w *world) check() {
	for _, n := range w.nodes {
		f := w.folds[n.applied]
		if n.rebuilding || n.applied < n.exact {
			continue
		}
		if n.m.clock != f.clock {
			w.t.Fatalf("node %d at %d: time %d, want %d", n.number, n.applied, n.m.clock, f.clock)
		}
		for _, k := range worldKeys {
			switch {
			case n.m.open():
				w.extends(f.table[k], n.table[k], k)
			case n.table[k] != f.table[k]:
				w.t.Fatalf("node %d at %d: key %s is %q, the log says %q", n.number, n.applied, k, n.table[k], f.table[k])
			}
		}
	}
	end := w.folds[len(w.folds)-1].table
	for d, keys := range w.replied {
		for _, k := range keys {
			if !has(end[k], d) {
				w.t.Fatalf("decision %s was answered and is lost", d)
			}
		}
	}
}

// step lets something happen to a node, or to a proposal.
func (w *world) step() {
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	switch what := w.rand.IntN(200); {
	case what < 50:
		n.decide()
	case what < 74:
		n.drain()
	case what < 122:
		w.enters()
	case what < 182:
		for range 1 + w.rand.IntN(4) {
			n.next()
		}
	case what < 184:
		n.ask()
	case what < 185:
		w.term++
	case what < 188:
		n.rebuild()
	case what < 192:
		n.snapshot()
	case what < 196:
		n.copied()
	case what < 197:
		n.crash()
	case what < 198:
		n.install(w.nodes[w.rand.IntN(len(w.nodes))])
	case what < 199:
		w.lose()
	}
}

// catchUp lets all nodes catch up.
func (w *world) catchUp() {
	for _, n := range w.nodes {
		for n.applied < len(w.log) {
			n.next()
		}
		n.rebuild()
	}
}

// The state of every node is always the fold of the accepted groups, and no answered decision is ever lost.
func TestStateIsTheFoldOfWhatWasAccepted(t *testing.T) {
	const worlds = 20
	replied := 0
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		steps := rapid.IntRange(300, 600).Draw(t, "steps")
		for i := range worlds {
			w := newWorld(t, seed+uint64(i))
			for range steps {
				w.step()
				w.check()
			}
			w.catchUp()
			w.check()
			replied += len(w.replied)
		}
	})
	if replied < 1000 {
		t.Errorf("%d replies only: the worlds are too hostile to show anything", replied)
	}
}

// If a node's own batch is ignored, its epoch ends, even though the future of the batch reports success.
func TestOwnBatchThatIsIgnored(t *testing.T) {
	var m machine
	own := id{1, 1}
	m.ask(own)
	if r, err := m.apply(&entry{kind: kindEpoch, epoch: own}, 3); err != nil || !r.opened {
		t.Fatal(r, err)
	}
	for _, c := range []struct {
		e    entry
		term uint64
		want result
	}{
		{entry{kind: kindBatch, epoch: id{2, 2}, sequence: 1, last: true}, 3, result{ignored: true}},
		{entry{kind: kindBatch, epoch: own, sequence: 1, last: true}, 3, result{accepted: true, own: true}},
		{entry{kind: kindBatch, epoch: own, sequence: 2, last: true}, 4, result{ignored: true, abdicate: true}},
		{entry{kind: kindBatch, epoch: own, sequence: 2, last: true}, 3, result{accepted: true}},
		{entry{kind: kindBatch, epoch: own, sequence: 2, last: true}, 3, result{ignored: true}},
	} {
		r, err := m.apply(&c.e, c.term)
		if err != nil || r.ignored != c.want.ignored || r.accepted != c.want.accepted || r.own != c.want.own || r.abdicate != c.want.abdicate {
			t.Errorf("%+v in term %d: %+v, %v", c.e, c.term, r, err)
		}
	}
}

// A record that cannot be read stops the node, wherever it stands in its group.
func TestRecordsThatStopANode(t *testing.T) {
	m := machine{fence: fence{epoch: id{1, 1}}}
	for _, last := range []bool{false, true} {
		e := entry{kind: kindBatch, epoch: id{1, 1}, sequence: 1, last: last, records: []byte{0, 1}}
		if r, err := m.apply(&e, 0); err == nil || r.accepted || m.sequence != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// A snapshot may stand for entries that would have closed the epoch.
func TestSnapshotClosesTheEpoch(t *testing.T) {
	m := machine{own: id{1, 1}, fence: fence{epoch: id{1, 1}, sequence: 4}}
	if abdicate := m.restore(fence{epoch: id{1, 1}, sequence: 7}); !abdicate || m.open() {
		t.Error(abdicate, m.open())
	}
	e := entry{kind: kindBatch, epoch: id{1, 1}, sequence: 8, last: true}
	if r, err := m.apply(&e, 0); err != nil || !r.accepted || r.own {
		t.Errorf("%+v, %v", r, err)
	}
	m.ask(id{1, 2})
	m.restore(m.fence)
	if r, _ := m.apply(&entry{kind: kindEpoch, epoch: id{1, 2}, after: id{1, 1}}, 0); r.opened {
		t.Error("a proposal from before the snapshot opens an epoch")
	}
}

// A snapshot in the middle of a group has the gathered part of the group.
func TestSnapshotHasAnUnfinishedGroup(t *testing.T) {
	var first, second journal.Buffer
	first.Set(1, 201, []byte("a"), []byte("1"))
	second.Set(1, 201, []byte("b"), []byte("2"))
	m := machine{fence: fence{epoch: id{1, 1}, address: "a:1"}}
	if _, err := m.apply(&entry{kind: kindBatch, epoch: id{1, 1}, sequence: 1, clock: 7, records: first.Bytes}, 0); err != nil {
		t.Fatal(err)
	}
	f, err := parseFence(m.appendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	var loaded machine
	loaded.restore(f)
	r, err := loaded.apply(&entry{kind: kindBatch, epoch: id{1, 1}, sequence: 2, clock: 5, last: true, records: second.Bytes}, 0)
	if err != nil || !r.accepted || string(r.records) != string(first.Bytes)+string(second.Bytes) || loaded.clock != 7 {
		t.Errorf("%+v, %v, time %d", r, err, loaded.clock)
	}
}
