package replication

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk/disktest"
	"limitdb/replication/redo"
)

// crashed is a node's directory on a machine that crashes now and then, and what it must have after that. The votes are
// apart, since bbolt writes its file itself.
type crashed struct {
	t      *testing.T
	rng    *rand.Rand
	fs     *disktest.Mem
	redo   bool // with a redo log
	stores stores
	snaps  *snapshotStore

	// data has what each entry is, or may be if its write was not finished.
	data map[uint64][]string
	// The log has the entries up to last, but for those that a snapshot with the index covered or a later one has.
	last, covered uint64
	lives, cuts   int
}

const crashedNode = "a node"

func newCrashed(t *testing.T, seed uint64) *crashed {
	c := &crashed{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fs: disktest.New("/node/log", "/node/snapshots"), redo: seed%4 == 1, data: map[uint64][]string{}}
	l := &lastIndex{fs: c.fs, dir: "/node", storedLast: storedLast{Node: crashedNode, Last: 1}}
	if err := l.write(0); err != nil {
		t.Fatal(err)
	}
	return c
}

// start opens everything, as a start of the node does, and compares it with what it must be.
func (c *crashed) start() error {
	c.lives++
	c.stores = stores{votes: &votes{}, log: &diskLog{fs: c.fs, dir: "/node/log", segment: 1 << 9}}
	err := error(nil)
	if c.redo {
		c.stores.log.redo, err = redo.Open(c.fs, "/redo", 64<<10)
	}
	if err == nil {
		err = c.stores.log.open(false)
	}
	if err == nil {
		c.stores.last, err = openLast(c.fs, "/node", crashedNode)
	}
	if err == nil {
		c.stores.log.shorten = c.stores.last.cut
		c.snaps, err = openSnapshots(c.fs, "/node/snapshots")
	}
	if err == nil {
		c.stores.votes.ballot.Values = map[string][]byte{termKey: {255, 0, 0, 0, 0, 0, 0, 0}}
		err = c.stores.verify(c.snaps)
	}
	if err == nil {
		err = (&guarded{LogStore: c.stores.log, snapshots: c.snaps}).discardConflicting(c.stores.log)
	}
	if err != nil {
		return err
	}
	return c.compare()
}

// compare compares the log and the snapshots with what they must have.
func (c *crashed) compare() error {
	first, _ := c.stores.log.FirstIndex()
	last, _ := c.stores.log.LastIndex()
	all, damaged, err := c.snaps.list()
	if err != nil || len(damaged) > 0 {
		return fmt.Errorf("the snapshots %q are damaged: %w", damaged, cmp.Or(err, errSnapshot))
	}
	covered := uint64(0)
	for _, m := range all { // half of one must not look like one, also if it is not the newest
		covered = max(covered, m.Index)
		_, from, err := c.snaps.Open(m.ID)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(from)
		if want := stateUpTo(c.t, m.Index); string(b) != want || err != nil {
			return fmt.Errorf("the snapshot up to %d has %d bytes, not %d: %v", m.Index, len(b), len(want), err)
		}
	}
	if covered < c.covered || max(last, covered) < c.last {
		return fmt.Errorf("the log ends with %d, the snapshot with %d, and they had %d and %d", last, covered, c.last, c.covered)
	}
	for i := max(first, 1); i <= last; i++ {
		var l raft.Log
		if err := c.stores.log.GetLog(i, &l); err != nil {
			return err
		}
		if got := string(l.Data); i <= c.last && i > c.covered && got != c.data[i][0] || !strings.Contains(strings.Join(c.data[i], "|"), got) {
			return fmt.Errorf("entry %d is %q, and was %q", i, got, c.data[i])
		}
		c.data[i] = []string{string(l.Data)}
	}
	// What is there is not lost from now on: the node tells others that it has it.
	c.last, c.covered = max(last, covered), covered
	return nil
}

func stateUpTo(t testing.TB, index uint64) string {
	return string(encodedSnapshot(t, &fence{epoch: id{1, 2}, format: Format}, map[string]string{"key": strings.Repeat(fmt.Sprint(index, " "), int(index%50)*100)}))
}

// step does something that Raft does.
func (c *crashed) step() error {
	log := c.stores.log
	first, _ := log.FirstIndex()
	last, _ := log.LastIndex()
	switch what := c.rng.IntN(12); {
	case what < 6:
		return c.store(max(last, c.covered))
	case what == 6 && last > 0: // a new leader has other entries at the end
		from := max(first, c.covered+1) + uint64(c.rng.IntN(3))
		if from > last {
			return nil
		}
		c.last = max(from-1, c.covered)
		return log.DeleteRange(from, last)
	case what == 7 && c.last > c.covered: // a snapshot of what was applied
		return c.snapshot(c.covered + 1 + uint64(c.rng.IntN(int(c.last-c.covered))))
	case what == 8: // a snapshot from the leader, and nothing of the log counts
		if err := c.snapshot(max(last, c.covered) + uint64(c.rng.IntN(5)) + 1); err != nil || last == 0 {
			return err
		}
		return log.DeleteRange(first, last)
	case what == 9 && first > 0 && c.covered >= first: // some entries stay for followers that lag
		return log.DeleteRange(first, first+uint64(c.rng.IntN(int(min(last, c.covered)-first+1))))
	case what == 10:
		return c.stores.last.reach(log)
	}
	return nil
}

// store appends entries.
func (c *crashed) store(last uint64) error {
	var logs []*raft.Log
	for i := range uint64(1 + c.rng.IntN(3)) {
		index := last + i + 1
		data := strings.Repeat(string(rune('a'+c.rng.IntN(26))), c.rng.IntN(200))
		logs = append(logs, &raft.Log{Index: index, Term: index, Type: raft.LogCommand, Data: []byte(data)})
		c.data[index] = append([]string{data}, c.data[index]...)
	}
	err := c.stores.log.StoreLogs(logs)
	if err == nil {
		c.last = logs[len(logs)-1].Index
	}
	return err
}

// snapshot makes a snapshot with the state up to an entry.
func (c *crashed) snapshot(index uint64) error {
	sink, err := c.snaps.Create(raft.SnapshotVersionMax, index, index, raft.Configuration{}, 1, nil)
	if err != nil {
		return err
	}
	for state := stateUpTo(c.t, index); len(state) > 0 && err == nil; {
		n := min(len(state), 1+c.rng.IntN(2000))
		_, err = sink.Write([]byte(state[:n]))
		state = state[n:]
	}
	if err == nil {
		err = sink.Close()
	}
	if err == nil {
		c.last, c.covered = max(c.last, index), index
	}
	return err
}

// live runs the node until the operation with a number is cut short, and starts it again. The start is cut short too, and
// then the next. It reports whether there was such an operation.
func (c *crashed) live(left int) (cut bool) {
	c.fs.Left = left
	err := c.start()
	for range 30 {
		if err != nil {
			break
		}
		err = c.step()
	}
	cut = c.fs.Crashed
	for again := 2; ; again-- {
		if err != nil && !errors.Is(err, disktest.ErrCrashed) {
			c.t.Fatalf("operation %d, life %d: %v", left, c.lives, err)
		}
		if c.fs.Crashed {
			c.cuts++
		}
		if c.rng.IntN(4) > 0 {
			c.fs = c.fs.Crash(c.rng)
		} // else only the process was killed
		c.fs.Crashed, c.fs.Left = false, -1
		if again > 0 {
			c.fs.Left = c.rng.IntN(6)
		}
		if err = c.start(); err == nil {
			break
		}
	}
	c.fs.Left = -1
	return cut
}

// Wherever a crash comes, and whatever it leaves of what was not synced, the node starts again with every entry and
// every snapshot that Raft was told is durable.
//
//test:norace
func TestCrashesOfANode(t *testing.T) {
	cuts, seeds := 0, uint64(12)
	if os.Getenv("LIMITDB_LONG") != "" {
		seeds = 1000
	}
	for seed := range seeds {
		for left := 0; ; left++ {
			c := newCrashed(t, seed)
			if !c.live(left) { // the node has done everything before it
				break
			}
			for range 2 { // what is left of a crash is where the next life begins
				c.live(c.rng.IntN(60))
			}
			if t.Failed() {
				t.Fatalf("seed %d, operation %d", seed, left)
			}
			cuts += c.cuts
		}
	}
	if cuts < 1000 {
		t.Errorf("only %d crashes", cuts)
	}
}
