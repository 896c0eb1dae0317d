package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"limitdb/groups"
	"limitdb/internal/journal"
	"limitdb/persistence"
	"limitdb/resp"
	"limitdb/state"
)

// countedKeys is how many keys a test of exports has, more than groups.
const countedKeys = 40

// A directory that is made has its name when it is whole, and nothing is left of one that cannot be made.
func TestMakeWhole(t *testing.T) {
	top, no := t.TempDir(), errors.New("no room")
	to := filepath.Join(top, "to")
	for _, fails := range []error{no, nil} {
		err := makeWhole(to+"/", func(dir string) error {
			if _, err := os.Lstat(to); err == nil || filepath.Dir(dir) != top {
				t.Errorf("%s is there while it is made in %s", to, dir)
			}
			return errors.Join(os.WriteFile(filepath.Join(dir, "a"), nil, 0o600), fails)
		})
		if !errors.Is(err, fails) {
			t.Errorf("%v", err)
		}
		entries, err := os.ReadDir(top)
		if err != nil || fails != nil && len(entries) > 0 || fails == nil && (len(entries) != 1 || entries[0].Name() != "to") {
			t.Errorf("after %v: %v, %v", fails, entries, err)
		}
	}
	if err := makeWhole(to, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
}

// take takes 1 of each key of a node, and wants so many to have been taken then.
func take(t *testing.T, s *several, taken int) {
	t.Helper()
	for i := range countedKeys {
		reply, err := s.p.server.Do(t.Context(), []byte("RL.TAKE"), fmt.Append(nil, "key", i), []byte("FIXED"), []byte("1000/365d"))
		if want := fmt.Sprintf("*5\r\n:0\r\n:1000\r\n:%d\r\n", 1000-taken); err != nil || !strings.HasPrefix(string(reply), want) {
			t.Fatalf("key %d: %q, %v", i, reply, err)
		}
	}
}

// exported makes a directory from those of nodes, and checks what Export says of it.
func exported(t *testing.T, count int, dirs ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "exported")
	from, at, got, err := Export(to, dirs...)
	if err != nil {
		t.Fatal(err)
	}
	if len(from) != count+1 || got != countedKeys {
		t.Errorf("%d keys of %d groups", got, len(from))
	}
	for i, x := range from {
		if x.Group != i || x.Index == 0 {
			t.Errorf("%+v", x)
		}
	}
	earliest := int64(math.MaxInt64) // of those with keys
	for i := range countedKeys {
		earliest = min(earliest, from[groups.Of(resp.Slot(fmt.Append(nil, "key", i)), count)].Clock)
	}
	if at != earliest {
		t.Errorf("as of %d, and the earliest group is of %d", at, earliest)
	}
	return to
}

// What several groups have used stays used when their keys come to one server, and to a cluster with another number of groups.
func TestGroupsToOneServerAndToOtherGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for taken, count := range []int{4, 16, 2} {
		s, stop := beginSeveralIn(t, dir, count)
		take(t, s, taken+1)
		s.placing.beginDirectory()
		if d := s.dir.current(); d.Groups() != count {
			t.Errorf("the directory has %d groups", d.Groups())
		}
		if taken == 0 {
			if got, err := s.p.server.Do(t.Context(), []byte("RL.RULES"), []byte("LOAD"), []byte("version: 1\nnamespaces:\n  shop: []\n")); err != nil || got[0] == '-' {
				t.Fatal(string(got), err)
			}
		}
		if text := s.p.kept.text(); !strings.Contains(string(text), "shop") {
			t.Errorf("the rules: %q", text)
		}
		if _, _, _, err := Export(filepath.Join(t.TempDir(), "x"), dir); err == nil || !strings.Contains(err.Error(), "stop the node first") {
			t.Errorf("while the node runs: %v", err)
		}
		stop()
		if persistence.HasData(dir) {
			t.Error("the state that the cluster has taken over is still in force")
		}
		dir = exported(t, count, dir)
		if _, _, _, err := Export(dir, dir); err == nil || !strings.Contains(err.Error(), "of a standalone server") {
			t.Errorf("the directory of a standalone server is exported: %v", err)
		}
		if _, _, _, err := Export(filepath.Join(t.TempDir(), "x"), t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not the directory of a node") {
			t.Errorf("an empty directory is exported: %v", err)
		}
	}
}

// A cluster that has begun with a standalone server's state, and was stopped before it had retired that, takes over nothing again; and one that was
// stopped before all of its groups had begun takes over the rest.
func TestBeginningWithAStateThatWasCutShort(t *testing.T) {
	t.Parallel()
	first := t.TempDir()
	s, stop := beginSeveralIn(t, first, 2)
	take(t, s, 1)
	stop()
	dir := exported(t, 2, first)
	manifest, err := os.ReadFile(filepath.Join(dir, "MANIFEST"))
	if err != nil {
		t.Fatal(err)
	}
	again := func(taken int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "MANIFEST"), manifest, 0o600); err != nil { // as if it had not been renamed
			t.Fatal(err)
		}
		s, stop := beginSeveralIn(t, dir, 4)
		take(t, s, taken)
		stop()
	}
	again(2)
	again(3)

	half := exported(t, 4, dir)
	blocked := filepath.Join(half, raftDirs, "3")
	if err := errors.Join(os.Mkdir(filepath.Dir(blocked), 0o700), os.WriteFile(blocked, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s, stop = buildSeveral(t, half, 4)
	if err := s.start(true, "127.0.0.1:1"); err == nil || !persistence.HasData(half) {
		t.Errorf("group 3 cannot begin: %v", err)
	}
	stop()
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	s, stop = beginSeveralIn(t, half, 4)
	take(t, s, 4)
	stop()
}

// Of several directories, each group is taken from the newest log, and no group may be missing.
func TestExportTakesTheNewestReplicas(t *testing.T) {
	t.Parallel()
	dir, old := t.TempDir(), t.TempDir()
	s, stop := beginSeveralIn(t, dir, 4)
	take(t, s, 1)
	stop()
	if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s, stop = beginSeveralIn(t, dir, 4)
	take(t, s, 2)
	stop()
	for _, order := range [][]string{{dir, old}, {old, dir}} {
		to := exported(t, 4, order...)
		s, stop := beginSeveralIn(t, to, 4)
		take(t, s, 3)
		stop()
	}
	// Each has only some groups.
	for d, gone := range map[string][]string{dir: {"1", "2"}, old: {"3"}} {
		for _, g := range gone {
			if err := os.RemoveAll(filepath.Join(d, raftDirs, g)); err != nil {
				t.Fatal(err)
			}
		}
	}
	exported(t, 4, dir, old)
	if _, _, _, err := Export(filepath.Join(t.TempDir(), "x"), dir); err == nil || !strings.Contains(err.Error(), "group 1 has no replica") {
		t.Errorf("without group 1: %v", err)
	}
	other := t.TempDir()
	_, stop = beginSeveralIn(t, other, 4)
	stop()
	if _, _, _, err := Export(filepath.Join(t.TempDir(), "x"), dir, other); err == nil || !strings.Contains(err.Error(), "different clusters") {
		t.Errorf("of two clusters: %v", err)
	}
}

// A backup of a node has all groups of which it has a replica.
func TestBackupOfSeveralGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := beginSeveralIn(t, dir, 4)
	take(t, s, 1)
	store := func(name string, want ...int) string {
		t.Helper()
		to := filepath.Join(t.TempDir(), name)
		open, files, err := s.p.backups.begin()
		if err != nil {
			t.Fatal(err)
		}
		c, err := StoreBackup(to, files)
		if err != nil || c.Of != 4 || !slices.Equal(c.Groups, want) {
			t.Errorf("%+v, %v", c, err)
		}
		if err := s.p.backups.end(open, true); err != nil {
			t.Error(err)
		}
		return to
	}
	whole := store("whole", 1, 2, 3, 4)
	take(t, s, 2)
	if err := s.replicas[3].shut(); err != nil {
		t.Fatal(err)
	}
	some := store("some", 1, 2, 4)
	stop()
	if _, _, _, err := Export(filepath.Join(t.TempDir(), "x"), some); err == nil || !strings.Contains(err.Error(), "group 3 has no replica") {
		t.Errorf("without group 3: %v", err)
	}
	exported(t, 4, some, whole)
	to := exported(t, 4, whole)
	s, stop = beginSeveralIn(t, to, 2)
	take(t, s, 2)
	stop()
}

// Keys of a standalone server go to the group of their slot.
func TestStandaloneStateIsDivided(t *testing.T) {
	t.Parallel()
	s, stop := beginSeveralIn(t, t.TempDir(), 2)
	defer stop()
	a := &standalone{p: s.p}
	for range 2 {
		a.engines = append(a.engines, s.home().newEngine())
	}
	defer a.close()
	put := func(records ...journal.Record) {
		t.Helper()
		if err := a.restore(records, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	keys := func() [2]int64 { return [2]int64{a.engines[0].Stats().Keys, a.engines[1].Stats().Keys} }
	of := func(key string) journal.Record {
		var b journal.Buffer
		b.Set(1, byte(state.STRING), []byte(key), append(make([]byte, 8), 'x'))
		r, _, err := journal.Parse(b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	put(of("foo"), of("bar"), of("hello"), of("{bar}1")) // slots 12182, 5061, 866 and 5061
	if got := keys(); got != [2]int64{3, 1} {
		t.Errorf("%v", got)
	}
}
