package replication

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
)

// stateIn returns what a node finds in its directory when it starts: who it is, what it has voted for, its log and its
// state, and, apart, how far its note moves the time.
func stateIn(dir string, c Clock) (state string, noted int64, err error) {
	table := &list{states: map[string]string{}}
	o := Options{Table: table, Log: slog.New(slog.DiscardHandler), Clock: c, Fatal: func(error) {}}
	who, err := identify(dir, "")
	if err != nil {
		return "", 0, err
	}
	p, err := openParts(&o, Disk{Dir: dir}, who)
	if err != nil {
		return "", 0, err
	}
	p.close = p.stores.close
	defer func() { err = errors.Join(err, p.close()) }()
	n := newNode(o, p)
	noted, err = n.clockFile.recall()
	if err != nil {
		return "", 0, err
	}
	vote := func(key string) uint64 {
		v, verr := p.stable.GetUint64([]byte(key))
		if verr != nil && verr.Error() != "not found" {
			err = errors.Join(err, verr)
		}
		return v
	}
	candidate, _ := p.stable.Get([]byte("LastVoteCand"))
	state = fmt.Sprintf("%+v votes %d %d %q", who.stored, vote("CurrentTerm"), vote("LastVoteTerm"), candidate)
	var m machine
	at, lerr := n.replica.loadNewest(&m)
	if err = errors.Join(err, lerr); err != nil {
		return "", 0, err
	}
	all, err := p.snapshots.List()
	for _, s := range all {
		state += fmt.Sprintf("\nsnapshot %d %d %+v", s.Index, s.Term, s.Configuration)
	}
	first, _ := p.logs.FirstIndex()
	last, _ := p.logs.LastIndex()
	for i := first; i > 0 && i <= last; i++ {
		var l raft.Log
		if err := p.logs.GetLog(i, &l); err != nil {
			return "", 0, err
		}
		state += fmt.Sprintf("\nentry %d %d %d %x", l.Index, l.Term, l.Type, l.Data)
		if i == at+1 {
			if err := n.replica.replay(&m, i); err != nil {
				return "", 0, err
			}
			at++
		}
	}
	for _, k := range slices.Sorted(maps.Keys(table.snapshot())) {
		state += fmt.Sprintf("\n%s %s", k, table.snapshot()[k])
	}
	return state + fmt.Sprintf("\n%d", m.clock), noted, err
}

// pausedClock is of a machine that runs for 1000 s in the boot 7.
func pausedClock() Clock {
	return Clock{
		Wall: func() int64 { return 1_700_000_000e9 }, Elapsed: func() int64 { return 0 },
		Boot: func() (uint64, int64) { return 7, 1000e9 },
	}
}

// smallNode makes the directory of a node with a snapshot, entries behind it, a vote and a note of the time.
func smallNode(t *testing.T, dir string) {
	t.Helper()
	nodeWithState(t, dir, freeAddress(t))
	o := Options{Log: slog.New(slog.DiscardHandler), Clock: pausedClock(), Fatal: func(err error) { t.Error(err) }}
	for _, name := range filesIn(t, filepath.Join(dir, logDir)) { // most of the zeros ahead tell nothing
		path := filepath.Join(dir, logDir, name)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.Truncate(path, int64(len(bytes.TrimRight(b, "\x00"))+100))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n := newNode(o, parts{note: filepath.Join(dir, noteFile)})
	n.replica.machine.clock = 1_700_000_000e9
	if err := n.clockFile.write(); err != nil {
		t.Fatal(err)
	}
}

// copied returns a copy of a directory in a place of its own.
func copied(t *testing.T, dir string) string {
	to := filepath.Join(volatileDir(t), "node")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// interesting returns the offsets of a file's bytes, except for most of those in long stretches of zeros.
func interesting(b []byte) []int {
	near := func(at int) bool {
		for i := max(0, at-40); i < min(len(b), at+40); i++ {
			if b[i] != 0 {
				return true
			}
		}
		return false
	}
	var all []int
	for at := range b {
		if at%1021 == 0 || near(at) {
			all = append(all, at)
		}
	}
	return all
}

// A flipped byte anywhere in a node's directory is refused, healed or harmless. It never gives the node another state, vote, name or time.
//
//test:norace
func TestFlipsOfEveryByte(t *testing.T) {
	sound := filepath.Join(volatileDir(t), "sound")
	smallNode(t, sound)
	want, noted, err := stateIn(copied(t, sound), pausedClock())
	if err != nil || noted == 0 {
		t.Fatal(want, noted, err)
	}
	for _, name := range filesIn(t, sound) {
		good, err := os.ReadFile(filepath.Join(sound, name))
		if err != nil {
			t.Fatal(err)
		}
		dir := copied(t, sound)
		refused, failed := 0, 0
		offsets := interesting(good)
		for _, at := range offsets {
			for _, bits := range []byte{1, 0x80} {
				bad := slices.Clone(good)
				bad[at] ^= bits
				path := filepath.Join(dir, name)
				if err := errors.Join(os.Remove(path), os.WriteFile(path, bad, 0o600)); err != nil { // another file, as bbolt may keep this one locked
					t.Fatal(err)
				}
				report, err := Check(CheckOptions{Dir: dir, Clock: pausedClock()})
				if err != nil {
					t.Fatal(err)
				}
				got, said, err := stateIn(dir, pausedClock())
				if (err != nil) != (len(report.Problems) > 0) || (said == 0 && err == nil) != (len(report.Ignored) > 0) {
					t.Errorf("%s: byte %d with bits %x flipped: the check says %q, %q, and the start %v", name, at, bits, report.Problems, report.Ignored, err)
				}
				switch {
				case err != nil:
					refused++
				case got != want || said != noted && said != 0:
					if failed++; failed <= 3 {
						t.Errorf("%s: byte %d of %d with bits %x flipped: noted %d (%d), the state is %.300s", name, at, len(good), bits, said, noted, got)
					}
				}
				if names := filesIn(t, dir); !slices.Equal(names, filesIn(t, sound)) || name != voteFile {
					if err := os.RemoveAll(dir); err != nil {
						t.Fatal(err)
					}
					if err := os.CopyFS(dir, os.DirFS(sound)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		t.Logf("%s: %d bytes, %d flipped, %d refusals, %d wrong", name, len(good), len(offsets), refused, failed)
	}
}

// filesIn returns the names of all files below a directory.
func filesIn(t *testing.T, dir string) []string {
	var all []string
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			path, err = filepath.Rel(dir, path)
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// startAndCheck returns why a node does not start from a directory, and fails if Check does not know it.
func startAndCheck(t *testing.T, what, dir string) error {
	t.Helper()
	return startAndCheckAt(t, what, dir, pausedClock())
}

func startAndCheckAt(t *testing.T, what, dir string, c Clock) error {
	t.Helper()
	report, cerr := Check(CheckOptions{Dir: dir, Clock: c})
	_, _, err := stateIn(dir, c)
	if cerr != nil || (err != nil) != (len(report.Problems) > 0) {
		t.Errorf("%s: the check says %v, %v, and the start %v", what, report.Problems, cerr, err)
	}
	return err
}

// A log that ends before an entry that the node has acknowledged is refused, wherever it was cut.
func TestLogThatIsCutShort(t *testing.T) {
	sound := filepath.Join(volatileDir(t), "sound")
	smallNode(t, sound)
	path := filepath.Join(logDir, "0000000000000001"+segmentEnd)
	log, err := openLog(disk.OS{}, filepath.Join(sound, logDir), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	ends := append(log.segments[0].at[1:], uint32(log.segments[0].end))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	at := func(dir string, size uint32, write bool) {
		if err := os.Truncate(filepath.Join(dir, path), int64(size)); err != nil {
			t.Fatal(err)
		}
		if !write {
			return
		}
		if err := os.Truncate(filepath.Join(dir, path), int64(ends[len(ends)-1])+100); err != nil {
			t.Fatal(err)
		}
	}
	for i, end := range ends {
		for _, size := range []uint32{end - 1, end, end + 1} {
			for _, zeros := range []bool{false, true} {
				dir := copied(t, sound)
				at(dir, size, zeros)
				err := startAndCheck(t, fmt.Sprint("a cut at byte ", size), dir)
				if whole := i == len(ends)-1 && size >= end; whole && err != nil || !whole && !errors.Is(err, errFiles) {
					t.Errorf("a log of %d bytes, %d of them left: %v", ends[len(ends)-1], size, err)
				}
			}
		}
	}
	// A node that was killed has only its note of the time, as long as its machine runs.
	for _, boot := range []uint64{7, 8} {
		dir := copied(t, sound)
		last := uint64(len(ends))
		if err := errors.Join(
			disk.NewNote(disk.OS{}, filepath.Join(dir, noteFile), noteKind).Write(note{Clock: 1_700_000_000e9, Boot: boot, Elapsed: 1, Last: last}),
			disk.WriteRecord(disk.OS{}, filepath.Join(dir, lastFile), lastKind, storedLast{Node: incarnation(t, dir), Last: last - 1})); err != nil {
			t.Fatal(err)
		}
		if err := startAndCheck(t, "whole", dir); err != nil {
			t.Error(err)
		}
		at(dir, ends[last-2], false)
		if err := startAndCheck(t, "cut", dir); errors.Is(err, errFiles) != (boot == 7) {
			t.Errorf("in boot %d, its last note from boot 7: %v", boot, err)
		}
	}
	// The kill may come in the middle of a note: the one before counts.
	dir, last := copied(t, sound), uint64(len(ends))
	file := filepath.Join(dir, noteFile)
	n := disk.NewNote(disk.OS{}, file, noteKind)
	var before, after []byte
	for i, reached := range []uint64{last - 1, last, last} {
		before = after
		err := n.Write(note{Clock: 1_700_000_000e9, Boot: 7, Elapsed: int64(i), Last: reached})
		if err == nil {
			after, err = os.ReadFile(file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for at := range before {
		if before[at] != after[at] {
			clear(after[at+1 : at+40])
			break
		}
	}
	if err := errors.Join(os.WriteFile(file, after, 0o600),
		disk.WriteRecord(disk.OS{}, filepath.Join(dir, lastFile), lastKind, storedLast{Node: incarnation(t, dir), Last: last - 1})); err != nil {
		t.Fatal(err)
	}
	at(dir, ends[last-2], false)
	if err := startAndCheck(t, "cut, and killed in a note", dir); !errors.Is(err, errFiles) {
		t.Errorf("the note before the last does not count: %v", err)
	}
}

// incarnation returns that of the node of a directory.
func incarnation(t *testing.T, dir string) string {
	who, err := identify(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return who.Incarnation
}

// Entries that Raft itself removes from the end may be gone, also if the power goes at once.
func TestLogThatRaftCutsShort(t *testing.T) {
	dir := filepath.Join(volatileDir(t), "node")
	smallNode(t, dir)
	who, err := identify(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStores(dir, who, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	last, _ := s.log.LastIndex()
	if err := errors.Join(s.log.DeleteRange(last, last), s.close()); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(dir, noteFile)) {
		t.Error("the note still says how far the log reached")
	}
	if err := startAndCheck(t, "after a cut", dir); err != nil {
		t.Error(err)
	}
}

// Without one of its files, a node does not start as another node, or one that has seen less. Only the note of the time may be missing.
func TestMissingFiles(t *testing.T) {
	sound := filepath.Join(volatileDir(t), "sound")
	smallNode(t, sound)
	for _, gone := range append(filesIn(t, sound), logDir, snapshotsDir, "all but "+nodeFile) {
		dir := copied(t, sound)
		remove := []string{gone}
		if gone == "all but "+nodeFile {
			remove = []string{logDir, snapshotsDir, voteFile, lastFile, noteFile}
		}
		for _, name := range remove {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		err := startAndCheck(t, gone, dir)
		if gone != noteFile && err == nil {
			t.Errorf("it starts without %s", gone)
		}
		if gone == noteFile && err != nil {
			t.Errorf("it does not start without %s: %v", gone, err)
		}
	}
}

// A note whose time is further ahead than clocks can be is refused, with what to do, unless the log is as far ahead.
func TestNoteFromTheFuture(t *testing.T) {
	dir := filepath.Join(volatileDir(t), "node")
	smallNode(t, dir)
	report, err := Check(CheckOptions{Dir: dir})
	if err != nil || report.Clock == 0 {
		t.Fatal(report, err)
	}
	clock := pausedClock()
	_, elapsed := clock.Boot()
	logged := report.Clock // at most elapsed before the note, if both are right
	const years = int64(10 * 365 * 24 * time.Hour)
	for _, c := range []struct {
		name       string
		wall, note int64
		boot       uint64
		want       error
	}{
		{"right", logged + elapsed, logged + elapsed, 7, nil},
		{"behind", logged + years, logged, 7, nil},
		{"the log is long ago", logged + years, logged + years, 7, nil},
		{"a day ahead", logged + years, logged + years + noteAhead, 7, nil},
		{"more than a day ahead", logged + years, logged + years + noteAhead + 1, 7, ErrClock},
		{"the machine's clock is wrong", logged - years, logged + elapsed, 7, nil},
		{"a day ahead of the log", logged - years, logged + elapsed + noteAhead, 7, nil},
		{"more than that", logged - years, logged + elapsed + noteAhead + 1, 7, ErrClock},
		{"126 years ahead", logged, logged + 1<<62, 7, ErrClock},
		{"at the end of time", logged, math.MaxInt64, 7, ErrClock},
		{"from before the machine was rebooted", logged, math.MaxInt64, 8, nil},
	} {
		if err := disk.NewNote(disk.OS{}, filepath.Join(dir, noteFile), noteKind).Write(note{Clock: c.note, Boot: c.boot, Elapsed: elapsed}); err != nil {
			t.Fatal(err)
		}
		clock.Wall = func() int64 { return c.wall }
		err := startAndCheckAt(t, c.name, dir, clock)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "remove that file") {
			t.Errorf("%s: it does not say what to do: %v", c.name, err)
		}
	}
}

// A start that was cut short anywhere while it made the directory leaves one in which the next makes a node.
func TestNewDirectoryThatIsCutShort(t *testing.T) {
	whole := filepath.Join(volatileDir(t), "whole")
	if err := os.Mkdir(whole, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := stateIn(whole, pausedClock()); err != nil {
		t.Fatal(err)
	}
	made := []string{logDir, snapshotsDir, voteFile, lastFile, nodeFile} // in this order
	for i := range made {
		dir := copied(t, whole)
		for _, name := range made[i:] {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if HasNode(dir) {
			t.Errorf("without %s, it is a node's", made[i])
		}
		if _, _, err := stateIn(dir, pausedClock()); err != nil || !HasNode(dir) {
			t.Errorf("without %s: %v", made[i], err)
		}
		if err := startAndCheck(t, "the next", dir); err != nil {
			t.Error(err)
		}
	}
}

// Where nothing else is left, a node that has lost the end of its log can begin a new cluster.
func TestRecoverWithoutTheEnd(t *testing.T) {
	dir := filepath.Join(volatileDir(t), "node")
	smallNode(t, dir)
	path := filepath.Join(dir, logDir, "0000000000000001"+segmentEnd)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(bytes.TrimRight(b, "\x00"))-10)); err != nil {
		t.Fatal(err)
	}
	o := Options{Table: &list{states: map[string]string{}}, Log: slog.New(slog.DiscardHandler), Clock: pausedClock(), Fatal: func(err error) { t.Error(err) }}
	if report, err := Recover(o, dir); err != nil || len(report.Problems) != 1 {
		t.Fatalf("%v, %+v", err, report)
	}
	if err := startAndCheck(t, "recovered", dir); err != nil {
		t.Error(err)
	}
}

// A recovered node has no note of the time, whatever its log had: with an empty log, nothing bears out a time that is far ahead, and the node would not start.
func TestRecoverForgetsTheNote(t *testing.T) {
	dir := filepath.Join(volatileDir(t), "node")
	smallNode(t, dir)
	for _, log := range []string{"with entries", "empty"} {
		err := disk.NewNote(disk.OS{}, filepath.Join(dir, noteFile), noteKind).Write(note{Clock: 1_700_000_000e9 + 2*noteAhead, Boot: 7, Elapsed: 1000e9})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Table: &list{states: map[string]string{}}, Log: slog.New(slog.DiscardHandler), Clock: pausedClock(), Fatal: func(err error) { t.Error(err) }}
		if _, err := Recover(o, dir); err != nil || exists(filepath.Join(dir, noteFile)) {
			t.Errorf("a log %s: %v, or a note is left", log, err)
		}
	}
	if err := startAndCheck(t, "recovered", dir); err != nil {
		t.Error(err)
	}
}

// Votes from before a term that the log or the snapshot has are those of an older copy, and refused.
func TestOlderVotes(t *testing.T) {
	sound := filepath.Join(volatileDir(t), "sound")
	smallNode(t, sound) // its log and its snapshot are of term 2
	for _, c := range []struct {
		term    uint64
		without string
		refused bool
	}{
		{0, "", true}, {1, "", true}, {2, "", false}, {1 << 63, "", false}, {1, logDir, true},
	} {
		dir := copied(t, sound)
		values := map[string][]byte{termKey: binary.BigEndian.AppendUint64(nil, c.term)}
		node := incarnation(t, dir)
		err := createVotes(filepath.Join(dir, voteFile), ballot{Node: node, Values: values})
		if c.without != "" { // only the snapshot is left, and had everything
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, c.without)), os.Mkdir(filepath.Join(dir, c.without), 0o700), forgetNote(disk.OS{}, dir),
				disk.WriteRecord(disk.OS{}, filepath.Join(dir, lastFile), lastKind, storedLast{Node: node}))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := startAndCheck(t, fmt.Sprint("term ", c.term), dir); errors.Is(err, errFiles) != c.refused {
			t.Errorf("votes of term %d, without %q: %v", c.term, c.without, err)
		}
	}
}

// volatileDir returns a directory in memory, if the system has one, for a test that cuts no power.
func volatileDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "limitdb")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// What a damaged length of a page leads to is behind the file, and never a matter of what else the process has in memory there.
func TestVotesWithWrongLengths(t *testing.T) {
	path := filepath.Join(volatileDir(t), voteFile)
	if err := createVotes(path, ballot{Node: "node", Number: 2}); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page, head, element, leaf, reads = 4096, 16, 16, 2, 30
	refused := 0
	for p := 0; p < len(good); p += page {
		if good[p+8] != leaf {
			continue
		}
		for e := range int(good[p+10]) {
			bad := slices.Clone(good)
			bad[p+head+element*e+14] ^= 0x80 // 8 MB more of the value
			failed := 0
			for range reads {
				if err := errors.Join(os.Remove(path), os.WriteFile(path, bad, 0o600)); err != nil {
					t.Fatal(err)
				}
				if new(votes).read(path) != nil {
					failed++
				}
			}
			if failed != 0 && failed != reads {
				t.Errorf("page %d, element %d: %d of %d reads fail", p/page, e, failed, reads)
			}
			if failed > 0 {
				refused++
			}
		}
	}
	if refused != 2 { // those of the record and of its bucket, which bbolt copies
		t.Errorf("%d wrong lengths are refused", refused)
	}
}
