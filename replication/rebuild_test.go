package replication

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
)

// cleared is a table that calls a function when it is cleared for the first time.
type cleared struct {
	*list
	first func()
}

func (c *cleared) Clear() error {
	first := c.first
	if c.first = nil; first != nil {
		first()
	}
	return c.list.Clear()
}

// publishState publishes a snapshot with one state.
func publishState(t *testing.T, s *snapshotStore, index uint64, state string) {
	t.Helper()
	if err := publish(s, index, 1, encodedSnapshot(t, &fence{epoch: id{1, 2}, format: Format}, map[string]string{"key": state})); err != nil {
		t.Fatal(err)
	}
}

// A snapshot that a leader has begun may be published, and the log cut up to it, while the node builds its table from the one before. It has the
// state of the newer one then.
func TestSnapshotDuringARebuilding(t *testing.T) {
	for _, index := range []uint64{3, 6, 10} {
		s, err := openSnapshots(disktest.New("/snapshots"), "/snapshots")
		if err != nil {
			t.Fatal(err)
		}
		store := raft.NewInmemStore()
		for i := range uint64(10) {
			if err := store.StoreLog(&raft.Log{Index: i + 1, Term: 1, Type: raft.LogNoop}); err != nil {
				t.Fatal(err)
			}
		}
		publishState(t, s, 2, "old")
		table := &cleared{list: &list{states: map[string]string{}}}
		table.first = func() {
			publishState(t, s, index, "new")
			if err := store.DeleteRange(1, index); err != nil {
				t.Fatal(err)
			}
		}
		r := &replica{
			replayer: replayer{table, &guarded{LogStore: store, snapshots: s}, s, nil}, clock: Clock{Elapsed: noTime},
			told: events{changed: func() {}}, rebuilding: true, applied: 10,
		}
		if err := r.rebuild(0); err != nil || table.states["key"] != "new" || !r.ready() {
			t.Errorf("up to entry %d: %v, the state is %q", index, err, table.states["key"])
		}
	}
}

// listing calls a function after it has listed directories for the first time.
type listing struct {
	disk.FS
	then func()
}

func (l *listing) Dirs(dir string) ([]string, error) {
	names, err := l.FS.Dirs(dir)
	then := l.then
	if l.then = nil; then != nil {
		then()
	}
	return names, err
}

// An old snapshot may lose its name while others are listed: it is not damaged.
func TestSnapshotGoesWhileListed(t *testing.T) {
	fsys := &listing{FS: disktest.New("/snapshots")}
	s, err := openSnapshots(fsys, "/snapshots")
	if err != nil {
		t.Fatal(err)
	}
	publishState(t, s, 1, "first")
	publishState(t, s, 2, "second")
	fsys.then = func() { publishState(t, s, 3, "third") }
	all, damaged, err := s.list()
	if err != nil || len(all) == 0 || all[0].Index != 2 || len(damaged) != 0 {
		t.Errorf("%d snapshots, %q are damaged, %v", len(all), damaged, err)
	}
}

// Of snapshots with the same last entry, the newest is the one that was begun last, also by another process: after Recover, only that one has the new members.
func TestOrderOfSnapshots(t *testing.T) {
	fsys := disktest.New("/snapshots")
	var s *snapshotStore
	for i := range 25 {
		var err error
		if i == 0 || i == 12 || i == 24 {
			if s, err = openSnapshots(fsys, "/snapshots"); err != nil {
				t.Fatal(err)
			}
		}
		publishState(t, s, 5, fmt.Sprint(i))
		table := &list{states: map[string]string{}}
		r := replayer{table: table, snapshots: s}
		if _, err := r.loadNewest(&machine{}); err != nil || table.states["key"] != fmt.Sprint(i) {
			t.Errorf("snapshot %d: %v, the newest is %q", i, err, table.states["key"])
		}
	}
	publishState(t, s, 4, "older")
	if newest, err := s.newest(); err != nil || newest.Index != 5 {
		t.Errorf("%v, %v", newest, err)
	}
}

// renaming calls a function before a name is taken away for the first time.
type renaming struct {
	disk.FS
	first func()
}

func (r *renaming) Rename(from, to string) error {
	if first := r.first; first != nil && strings.HasSuffix(to, tmpSuffix) {
		r.first = nil
		first()
	}
	return r.FS.Rename(from, to)
}

// Two snapshots may be published at once: one that the node has made, and one that its leader has sent. Both remove the older ones.
func TestSnapshotsPublishedAtOnce(t *testing.T) {
	fsys := &renaming{FS: disktest.New("/snapshots")}
	s, err := openSnapshots(fsys, "/snapshots")
	if err != nil {
		t.Fatal(err)
	}
	publishState(t, s, 1, "first")
	publishState(t, s, 2, "second")
	fsys.first = func() { publishState(t, s, 9, "sent") }
	publishState(t, s, 3, "made")
	all, err := s.List()
	if err != nil || len(all) != 2 || all[0].Index != 9 || all[1].Index != 3 {
		t.Errorf("%d snapshots, %v", len(all), err)
	}
	if names, err := fsys.Dirs("/snapshots"); err != nil || len(names) != 2 {
		t.Errorf("%q, %v", names, err)
	}
}
