package disk_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
)

// What Synced says is durable, and it is never much behind.
func TestStretchOutlivesCrashes(t *testing.T) {
	for writes := range 12 {
		m := disktest.New("/dir")
		f, err := m.Create("/dir/log")
		if err != nil {
			t.Fatal(err)
		}
		s := &disk.Stretch{File: f, Bytes: 100}
		var want []byte
		for i := range writes {
			b := bytes.Repeat([]byte{byte(i + 1)}, 10*i)
			want = append(want, b...)
			if n, err := s.Write(b); n != len(b) || err != nil {
				t.Fatal(n, err)
			}
			if s.End != int64(len(want)) || s.End-s.Synced >= s.Bytes {
				t.Errorf("%d bytes are written, %d of them synced", s.End, s.Synced)
			}
		}
		if writes%2 == 0 {
			if err := s.Sync(); err != nil || s.Synced != s.End {
				t.Errorf("%d of %d are synced, %v", s.Synced, s.End, err)
			}
		}
		if err := m.SyncDir("/dir"); err != nil {
			t.Fatal(err)
		}
		if b := content(t, m.Crash(rand.New(rand.NewPCG(uint64(writes), 0))), s.Synced); !bytes.Equal(b, want[:s.Synced]) {
			t.Errorf("after %d writes: %d bytes of %d that were synced", writes, len(b), s.Synced)
		}
	}
}
