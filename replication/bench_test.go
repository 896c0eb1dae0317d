package replication

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

const benchRecord = 36 // about: 8 bytes of state, and a key of 17

// benchRecords returns records of many keys.
func benchRecords(n int) []byte {
	var b journal.Buffer
	for i := range n {
		b.Set(uint64(i), 1, fmt.Appendf(nil, "user:%012d", i), binary.LittleEndian.AppendUint64(nil, 1))
	}
	return b.Bytes
}

// BenchmarkStoreLogs stores one entry of some records for each write, and syncs it.
func BenchmarkStoreLogs(b *testing.B) {
	for _, records := range []int{1, 64, 4096} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			log, err := openLog(disk.OS{}, b.TempDir(), false, nil)
			if err != nil {
				b.Fatal(err)
			}
			l := &raft.Log{Term: 1, Type: raft.LogCommand, Data: benchRecords(records)}
			b.ReportAllocs()
			for b.Loop() {
				l.Index++
				if err := log.StoreLog(l); err != nil {
					b.Fatal(err)
				}
			}
			if err := log.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkOpenLog opens a log of 206 MB in entries of 256 kB, and reads all of it.
func BenchmarkOpenLog(b *testing.B) {
	const size = 206 << 20
	dir := b.TempDir()
	log, err := openLog(disk.OS{}, dir, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	l := &raft.Log{Term: 1, Type: raft.LogCommand, Data: benchRecords(maxBatch / benchRecord)}
	for written := 0; written < size; written += len(l.Data) {
		l.Index++
		if err := log.StoreLog(l); err != nil {
			b.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		log, err := openLog(disk.OS{}, dir, false, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i := uint64(1); i <= l.Index; i++ {
			var one raft.Log
			if err := log.GetLog(i, &one); err != nil {
				b.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// blank is a table that has nothing, and takes anything.
type blank struct{ Table }

func (blank) Apply(int64, []journal.Record) error { return nil }

// BenchmarkSnapshots writes a snapshot of 5 M keys in stretches, and reads it.
func BenchmarkSnapshots(b *testing.B) {
	const keys, step = 5_000_000, 1000
	var some journal.Buffer
	some.Bytes, some.Records = benchRecords(step), step
	snaps, err := openSnapshots(disk.OS{}, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	f := fence{clock: 1}
	write := func() {
		sink, err := snaps.Create(raft.SnapshotVersionMax, 1, 1, raft.Configuration{}, 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		err = writeSnapshot(sink, 1, f.appendTo(nil), func(cursor uint64, dst *journal.Buffer) uint64 {
			dst.Add(&some)
			return (cursor + step) % keys
		}, func() (uint64, error) { return 1, nil })
		if err == nil {
			err = sink.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			write()
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			newest, err := snaps.newest()
			if err != nil {
				b.Fatal(err)
			}
			_, from, err := snaps.Open(newest.ID)
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := readSnapshot(bufio.NewReaderSize(from, blockBytes), blank{}); err != nil {
				b.Fatal(err)
			}
			if err := from.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
