package replication

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A backup of a node that decides, makes snapshots and cuts its log meanwhile is the state of one index: each decision is on both of its
// keys or on none, and none is there without the one before it. It has everything that was answered before it began.
func TestBackupIsTheStateOfOneIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := &list{states: map[string]string{}}
	o := realOptions(t, "a", table)
	o.TrailingBytes = 1 << 10 // so that the log is cut
	n, err := openAt(o, Disk{Dir: filepath.Join(dir, "node"), Bootstrap: true, segment: 4 << 10}, freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a leader", func() bool { return n.Turn() != 0 })
	stop, failed, decided := make(chan bool), make(chan error, 2), make(chan int, 1)
	answered := make(chan int, 1)
	answered <- 0
	go func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				decided <- i - 1
				return
			default:
			}
			table.decide(fmt.Sprint(i), "k", fmt.Sprint("l", i%7))
			done := make(chan error, 1)
			n.Wait(n.Turn(), func(err error) { done <- err })
			n.Kick()
			if err := <-done; err != nil {
				failed <- err
			}
			<-answered
			answered <- i
		}
	}()
	for b := range 12 {
		before := <-answered
		answered <- before
		if b%3 == 1 {
			if err := n.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		to := filepath.Join(dir, fmt.Sprint("backup", b))
		if err := Backup(n, to); err != nil {
			t.Fatal(err)
		}
		checkBackup(t, to, before)
	}
	close(stop)
	last := <-decided
	to := filepath.Join(dir, "last")
	if err := Backup(n, to); err != nil {
		t.Fatal(err)
	}
	if got := checkBackup(t, to, last); got != last {
		t.Errorf("the last backup has %d decisions of %d", got, last)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	// No node starts from a backup under its own name.
	if _, err := openAt(realOptions(t, "a", &list{}), Disk{Dir: to}, freeAddress(t)); err == nil {
		t.Error("a node starts from a backup")
	}
}

// checkBackup checks that a backup is sound and has the first decisions and no other, at least as many as given. It returns how many.
func checkBackup(t *testing.T, dir string, least int) int {
	t.Helper()
	r, err := Check(CheckOptions{Dir: dir, Known: func(byte) bool { return true }})
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*"+tmpSuffix)); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	var table list
	x, err := Export(dir, &table)
	if err != nil {
		t.Fatal(err)
	}
	states := table.snapshot()
	all := strings.Count(states["k"], ".") / 2
	if all < least {
		t.Errorf("the backup of index %d has %d decisions, and %d were answered before", x.Index, all, least)
	}
	want := map[string]string{}
	for i := 1; i <= all; i++ {
		want["k"] += fmt.Sprint(".", i, ".")
		want[fmt.Sprint("l", i%7)] += fmt.Sprint(".", i, ".")
	}
	for k := range want {
		if states[k] != want[k] {
			t.Errorf("index %d: %s has %.80q…, want %.80q…", x.Index, k, states[k], want[k])
		}
	}
	if len(states) != len(want) {
		t.Errorf("%d keys, want %d", len(states), len(want))
	}
	if left, err := os.ReadDir(filepath.Join(dir, snapshotsDir)); err != nil || len(left) > 1 {
		t.Errorf("%v, %v", left, err)
	}
	return all
}
