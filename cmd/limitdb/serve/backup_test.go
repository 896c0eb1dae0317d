package serve

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	stored "limitdb/cmd/limitdb/backups"
	"limitdb/persistence"
)

// A scheduled backup is due some time after the last one, soon after a failure, and also if the clock was set back.
func TestBackupDue(t *testing.T) {
	const s = int64(time.Second)
	for _, c := range []struct {
		now, last, retry int64
		every            time.Duration
		want             bool
	}{
		{1000 * s, 0, 0, 0, false},
		{1000 * s, 0, 0, time.Minute, true},
		{1000 * s, 941 * s, 0, time.Minute, false},
		{1000 * s, 940 * s, 0, time.Minute, true},
		{1000 * s, 0, 1001 * s, time.Minute, false},
		{1000 * s, 0, 1000 * s, time.Minute, true},
		{1000 * s, 2000 * s, 0, time.Minute, true}, // the clock was set back
		{1000 * s, 0, 9000 * s, time.Minute, true}, // also after a failure
		{1000 * s, 999 * s, 0, time.Hour, false},
	} {
		if got := backupDue(c.now, c.last, c.retry, c.every); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The oldest backups are removed, and nothing else.
func TestPruneBackups(t *testing.T) {
	dir := t.TempDir()
	others := []string{"limitdb-mine", "other", "limitdb-20260101T000000Z.tar", "limitdb-20260102T000000Z.tmp", "limitdb-mine.tmp"}
	for _, name := range append([]string{"limitdb-20251230T000000Z.tmp", "limitdb-20260101T235959Z.tmp", "limitdb-20260103T000000Z", "limitdb-20260101T000000Z", "limitdb-20260102T000000Z", "limitdb-20251231T000000Z"}, others...) {
		if err := os.MkdirAll(filepath.Join(dir, name, "raft"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := pruneBackups(dir, 2); err != nil {
		t.Fatal(err)
	}
	want := append([]string{"limitdb-20260102T000000Z", "limitdb-20260103T000000Z"}, others...)
	entries, err := os.ReadDir(dir)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if slices.Sort(want); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// What a killed process has left of an open backup is removed, and one that a client has just opened is not.
func TestOldOpenBackup(t *testing.T) {
	k := &keptBackups{p: &process{durable: &durability{dir: t.TempDir()}}}
	for _, open := range []string{"1-1", ""} {
		if err := os.MkdirAll(k.scratch(), 0o700); err != nil {
			t.Fatal(err)
		}
		k.open = open
		if err := k.removeOld(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(k.scratch()); (err == nil) != (open != "") {
			t.Errorf("%q is open: %v", open, err)
		}
	}
}

// The name of a backup may end in a slash.
func TestStoreBackupWithASlash(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	store, err := persistence.Open(persistence.Options{Dir: data, Now: func() int64 { return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := stored.List(data)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "backup")
	if _, err := StoreBackup(to+"/", files); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckBackup(to); err != nil {
		t.Error(err)
	}
}
