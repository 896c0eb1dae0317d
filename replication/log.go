package replication

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/replication/redo"
)

const (
	// segmentBytes is the length at which a segment is full.
	segmentBytes = 16 << 20
	// keepBytes is the size up to which the buffer of a write is kept for the next.
	keepBytes  = 2 << 20
	segmentEnd = ".log"
)

// errLog is returned for a log that has lost entries that it once had.
var errLog = errors.New("damaged log: remove this node from the cluster, empty its directory, and add it again")

// diskLog is Raft's log in a directory: segments of consecutive entries, see segment.go. A write appends its entries to the last
// segment, and syncs once. When StoreLogs and DeleteRange return nil, what they did is durable.
//
// A cut at the beginning of the log removes segments, and renames the one in which it ends: a segment is named by the
// index of its first entry that counts. A cut at the end removes segments, the last first, and shortens another one. So
// a crash in the middle of a cut leaves a log without a gap.
//
// With a redo log, a write is durable there: a segment itself is synced only now and then, and when the log is closed.
type diskLog struct {
	fs      disk.FS
	dir     string
	lock    io.Closer
	segment int64     // segmentBytes
	redo    *redo.Log // nil for none
	// shorten, if it is set, is called before the entries from an index on are removed from the end. It calls forget, from which on LastIndex is
	// before that index, or returns an error.
	shorten func(index uint64, forget func()) error

	// writing is held by whoever changes the end of the log, and cutting by whoever cuts it. A cut at the beginning takes
	// long, and holds up no write. cutting is taken before writing.
	cutting, writing sync.Mutex
	out, zeros       []byte // of the last write, and those that Append writes ahead

	mu       sync.RWMutex // guards segments
	segments []*segment   // from the first to the last, none without entries
}

// openLog opens the log in a directory, creates the directory if it is missing, and cuts off a torn write at the end.
// The log is then durable. With readOnly it changes nothing. The errors are disk.ErrLocked, errLog and ErrNewer.
func openLog(fsys disk.FS, dir string, readOnly bool, again *redo.Log) (*diskLog, error) {
	d := &diskLog{fs: fsys, dir: dir, segment: segmentBytes, redo: again}
	if err := d.open(readOnly); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *diskLog) open(readOnly bool) (err error) {
	if !readOnly {
		if err := disk.MakeDir(d.fs, d.dir); err != nil {
			return err
		}
	}
	if d.lock, err = d.fs.Lock(d.dir, readOnly); err != nil {
		return err
	}
	// A process that had a redo log may have crashed.
	switch beside := filepath.Join(filepath.Dir(filepath.Dir(d.dir)), redo.Dir); {
	case readOnly:
		d.fs, err = redo.View(d.fs, beside)
	case d.redo == nil:
		err = redo.Repair(d.fs, beside)
	}
	if err != nil {
		return errors.Join(err, d.lock.Close())
	}
	if err := d.load(readOnly); err != nil {
		return errors.Join(err, d.Close())
	}
	return nil
}

// load reads all segments.
func (d *diskLog) load(readOnly bool) error {
	names, err := d.fs.List(d.dir)
	if err != nil {
		return err
	}
	if !readOnly { // a process that was killed may have removed or renamed files, and not synced that
		if err := d.fs.SyncDir(d.dir); err != nil {
			return err
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, segmentEnd) { // it was not finished
			continue
		}
		name = filepath.Join(d.dir, name)
		s, err := readSegment(d.fs, name, readOnly)
		if err != nil {
			return err
		}
		if n := len(d.segments); n > 0 && (d.segments[n-1].torn || d.segments[n-1].next() != s.from || s.from != s.first) {
			return errors.Join(fmt.Errorf("%w: %s does not follow the file before it", errLog, name), s.f.Close())
		}
		if err := s.redoes(d.redo, d.dir); err != nil {
			return err
		}
		d.segments = append(d.segments, s)
	}
	if len(d.segments) == 0 {
		return nil
	}
	last := d.segments[len(d.segments)-1]
	if last.empty() { // the node has stopped before the first write to it
		d.segments = d.segments[:len(d.segments)-1]
		if err := last.close(); err != nil || readOnly {
			return err
		}
		return d.unlink(last)
	}
	if readOnly {
		return nil
	}
	if last.torn {
		if err := last.truncate(d.fs, last.name(d.dir, last.from)); err != nil {
			return err
		}
	}
	// A process that was killed may have written entries and not synced them. The node tells its leader that it has them.
	return last.renew()
}

// Close closes the files.
func (d *diskLog) Close() error {
	var errs []error
	for _, s := range d.segments {
		errs = append(errs, s.settle(), s.close())
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

// FirstIndex returns the index of the first entry, 0 for an empty log.
func (d *diskLog) FirstIndex() (uint64, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.segments) == 0 {
		return 0, nil
	}
	return d.segments[0].from, nil
}

// LastIndex returns the index of the last entry, 0 for an empty log.
func (d *diskLog) LastIndex() (uint64, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.segments) == 0 {
		return 0, nil
	}
	return d.segments[len(d.segments)-1].next() - 1, nil
}

// GetLog reads an entry. The errors are raft.ErrLogNotFound and errLog.
func (d *diskLog) GetLog(index uint64, l *raft.Log) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	i := d.find(index)
	if i == len(d.segments) || index < d.segments[i].from {
		return raft.ErrLogNotFound
	}
	return d.segments[i].read(d.dir, index, l)
}

// StoreLog stores one entry.
func (d *diskLog) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores entries that follow the last one. A crash may leave only the first of them.
func (d *diskLog) StoreLogs(logs []*raft.Log) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	s, err := d.tail(logs[0].Index)
	if err != nil {
		return err
	}
	out, at := d.out[:0], make([]uint32, len(logs))
	for i, l := range logs {
		if l.Index != logs[0].Index+uint64(i) || len(l.Extensions) > 0 {
			return fmt.Errorf("replication: entry %d cannot be stored behind entry %d", l.Index, logs[0].Index)
		}
		at[i] = uint32(s.end) + uint32(len(out))
		out = appendEntry(out, l, logs[0].Index, s.seed)
	}
	if d.zeros == nil && d.redo == nil {
		d.zeros = make([]byte, min(disk.AheadBytes, d.segment))
	}
	if d.out = out; cap(out) > keepBytes {
		d.out = nil
	}
	if err := s.write(out, d.zeros); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.end, s.at = s.f.End, append(s.at, at...)
	if n := len(d.segments); n == 0 || d.segments[n-1] != s {
		d.segments = append(d.segments, s)
	}
	return nil
}

// tail returns the segment for the entry with an index. If it is a new one, it is not among the segments yet.
func (d *diskLog) tail(index uint64) (*segment, error) {
	if last := d.last(); last != nil {
		if last.next() != index {
			return nil, fmt.Errorf("replication: entry %d does not follow entry %d of the log", index, last.next()-1)
		}
		if last.end < d.segment {
			return last, nil
		}
	}
	s, err := createSegment(d.fs, d.dir, index)
	if err != nil {
		return nil, err
	}
	return s, s.redoes(d.redo, d.dir)
}

// last returns the last segment, or nil for an empty log.
func (d *diskLog) last() *segment {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.segments) == 0 {
		return nil
	}
	return d.segments[len(d.segments)-1]
}

// DeleteRange deletes the entries from first to last, which must be at the beginning or at the end of the log.
func (d *diskLog) DeleteRange(first, last uint64) error {
	d.cutting.Lock()
	defer d.cutting.Unlock()
	d.writing.Lock()
	s := d.last()
	switch {
	case s == nil || first > last:
		d.writing.Unlock()
		return nil
	case last+1 >= s.next():
		defer d.writing.Unlock()
		return d.cutEnd(first)
	}
	d.writing.Unlock()
	if begin, _ := d.FirstIndex(); first > begin {
		return fmt.Errorf("replication: the entries from %d to %d are in the middle of the log", first, last)
	}
	return d.cutBeginning(last + 1)
}

// cutEnd deletes the entries from an index on.
func (d *diskLog) cutEnd(index uint64) error {
	var short *segment
	var gone []*segment
	forget := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		n := d.find(index)
		if n < len(d.segments) && d.segments[n].from < index {
			short = d.segments[n]
			short.forget(index)
			n++
		}
		gone = d.take(n, len(d.segments))
	}
	if d.shorten == nil {
		forget()
	} else if err := d.shorten(index, forget); err != nil {
		return err
	}
	slices.Reverse(gone)
	if err := d.remove(gone); err != nil || short == nil {
		return err
	}
	return short.cut(d.fs, short.name(d.dir, short.from))
}

// cutBeginning deletes the entries before an index. The log must have an entry with that index. Entries may be stored
// meanwhile.
func (d *diskLog) cutBeginning(index uint64) error {
	d.mu.Lock()
	gone := d.take(0, d.find(index))
	s := d.segments[0]
	from := s.from
	s.from = max(from, index)
	d.mu.Unlock()
	if err := d.remove(gone); err != nil || index <= from {
		return err
	}
	if err := d.fs.Rename(s.name(d.dir, from), s.name(d.dir, index)); err != nil {
		return err
	}
	return d.fs.SyncDir(d.dir)
}

// find returns the place of the segment in which the entry with an index is or would be. The lock is held.
func (d *diskLog) find(index uint64) int {
	return sort.Search(len(d.segments), func(i int) bool { return index < d.segments[i].next() })
}

// take takes some of the segments out of the list, and returns them. The lock is held.
func (d *diskLog) take(from, to int) []*segment {
	gone := slices.Clone(d.segments[from:to])
	d.segments = slices.Delete(d.segments, from, to)
	return gone
}

// remove removes the files of segments, one after the other.
func (d *diskLog) remove(gone []*segment) error {
	for _, s := range gone {
		if err := d.unlink(s); err != nil {
			return err
		}
		if err := s.close(); err != nil { // not before the file is gone durably: the redo log may be removed from then on
			return err
		}
	}
	return nil
}

// unlink removes a segment's file.
func (d *diskLog) unlink(s *segment) error {
	if err := d.fs.Remove(s.name(d.dir, s.from)); err != nil {
		return err
	}
	return d.fs.SyncDir(d.dir)
}
