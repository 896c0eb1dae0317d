package disk_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
)

// What was synced is there after a crash, wherever it comes.
func TestAppenderOutlivesCrashes(t *testing.T) {
	zeros := make([]byte, 700)
	writes := [][]byte{bytes.Repeat([]byte{1}, 10), bytes.Repeat([]byte{2}, 600), bytes.Repeat([]byte{3}, 300), bytes.Repeat([]byte{4}, disk.AheadBelow)}
	for left, all := 0, false; !all; left++ {
		for seed := range uint64(20) {
			m := disktest.New("/dir")
			m.Left = left
			want := []byte("head")
			a, err := disk.CreateAppender(m, "/dir/log", want)
			created := err == nil
			for i := 0; i < len(writes) && err == nil; i++ {
				if err = a.Append(writes[i], zeros); err == nil {
					err = a.Sync()
				}
				if err == nil {
					want = append(want, writes[i]...)
				}
			}
			b, rerr := disk.ReadFile(m.Crash(rand.New(rand.NewPCG(seed, 0))), "/dir/log", 1<<20)
			if created && (rerr != nil || !bytes.HasPrefix(b, want)) {
				t.Fatalf("operation %d, seed %d: %d bytes, %v, of %d that were synced", left, seed, len(b), rerr, len(want))
			}
			if !created && rerr == nil && string(b) != "head" {
				t.Fatalf("operation %d, seed %d: half of a new file: %q", left, seed, b)
			}
			if all = err == nil; all && a.End != int64(len(want)) {
				t.Fatalf("it ends at %d, behind %d bytes", a.End, len(want))
			}
		}
	}
}

// The file grows in steps, but not for long writes, nor without zeros.
func TestAppenderWritesZerosAhead(t *testing.T) {
	a, err := disk.CreateAppender(disktest.New("/dir"), "/dir/log", make([]byte, 64))
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1000)
	for i, c := range []struct {
		write  int
		zeros  []byte
		length int64
	}{
		{100, zeros, 1064}, {900, zeros, 1064}, {1, zeros, 2064}, {disk.AheadBelow, zeros, 1065 + disk.AheadBelow}, {50, nil, 1115 + disk.AheadBelow},
	} {
		before := a.End
		if err := a.Append(make([]byte, c.write), c.zeros); err != nil || a.End != before+int64(c.write) || a.Length != c.length {
			t.Errorf("write %d: it ends at %d of %d, %v", i, a.End, a.Length, err)
		}
		if size, err := a.Size(); err != nil || size != a.Length {
			t.Errorf("write %d: the file has %d bytes, %v", i, size, err)
		}
	}
}

// Append reports each error of the disk, and End says what is whole. Where only zeros find no room, it does without.
func TestAppenderReportsErrors(t *testing.T) {
	for _, short := range []bool{false, true} {
		for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
			for n := 1; ; n++ {
				m := &disktest.Faulty{Mem: disktest.New("/dir"), N: n, Err: cause, Short: short}
				a, err := disk.CreateAppender(m, "/dir/log", []byte("head"))
				if err == nil {
					err = a.Append([]byte("first"), make([]byte, 100)) // zeros come before it
				}
				zeros := n == 6
				if err == nil && string(content(t, m, a.End)) != "headfirst" || zeros && (cause == syscall.ENOSPC) != (err == nil) || !zeros && !errors.Is(err, cause) && m.Hit != "" {
					t.Errorf("operation %d, %s, short: %v: %v", n, m.Hit, short, err)
				}
				if zeros && err == nil {
					if err := a.Append([]byte("second"), make([]byte, 100)); err != nil || a.Length != a.End {
						t.Errorf("the next write makes the file %d bytes long, and ends at %d, %v", a.Length, a.End, err)
					}
				}
				if m.Hit == "" {
					if n < 8 {
						t.Errorf("only %d operations", n-1)
					}
					break
				}
			}
		}
	}
}

// content returns the first bytes of the log.
func content(t *testing.T, fsys disk.FS, most int64) []byte {
	b, err := disk.ReadFile(fsys, "/dir/log", most)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
