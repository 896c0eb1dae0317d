package serve

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
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
	others := []string{"limitdb-mine", "other", "limitdb-20260101T000000Z.tar"}
	for _, name := range append([]string{"limitdb-20260103T000000Z", "limitdb-20260101T000000Z", "limitdb-20260102T000000Z", "limitdb-20251231T000000Z"}, others...) {
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
