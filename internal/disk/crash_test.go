package disk_test

import (
	"math/rand/v2"
	"testing"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
)

type sample struct {
	Name  string
	Count uint64
}

// A crash while a record is written leaves the one before it or the new one, wherever it comes.
func TestRecordsOutliveCrashes(t *testing.T) {
	for left := 0; ; left++ {
		done := false
		for seed := range uint64(50) {
			m := disktest.New("/dir")
			if err := disk.WriteRecord(m, "/dir/file", "some", sample{"a name", 1}); err != nil {
				t.Fatal(err)
			}
			m.Left = left
			err := disk.WriteRecord(m, "/dir/file", "some", sample{"another", 2})
			done = err == nil
			var got sample
			if rerr := disk.ReadRecord(m.Crash(rand.New(rand.NewPCG(seed, 0))), "/dir/file", "some", &got); rerr != nil || got.Count != 2 && (done || got.Count != 1) {
				t.Fatalf("operation %d, seed %d: %+v, %v after %v", left, seed, got, rerr, err)
			}
		}
		if done {
			if left < 4 {
				t.Errorf("only %d operations", left)
			}
			return
		}
	}
}
