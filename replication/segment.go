package replication

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/replication/redo"
)

// segment is a file of the log; PROTOCOL.md draws it. The entries end where no valid entry follows. If the rest is not
// zeros, a write was torn, and nobody was told that it was durable. But if an entry of a later write follows, the
// broken write was durable once, and the file is damaged.
type segment struct {
	f    *disk.Appender
	from uint64 // the first entry that counts
	// first is the index of the first entry in the file, and at has the offset of each entry. An entry is not much
	// longer than MaxRecord, so the offsets stay below 4 GB.
	first uint64
	at    []uint32
	seed  uint32
	end   int64        // of the entries
	torn  bool         // a torn write followed the entries when the file was read
	again *redo.Target // in which a write is durable, nil if in the file itself
}

const (
	segmentMagic  = "LDBL"
	segmentHead   = 24
	logHead       = 40
	segmentFormat = 1
)

func (s *segment) name(dir string, from uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", from, segmentEnd))
}

// next returns the index that the next entry will have.
func (s *segment) next() uint64 { return s.first + uint64(len(s.at)) }

// empty reports whether no entry counts.
func (s *segment) empty() bool { return s.next() <= s.from }

// createSegment makes a segment whose header is durable.
func createSegment(fsys disk.FS, dir string, first uint64) (*segment, error) {
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails
	s := &segment{from: first, first: first, seed: binary.LittleEndian.Uint32(seed[:]), end: segmentHead}
	var err error
	s.f, err = disk.CreateAppender(fsys, s.name(dir, first), s.header())
	return s, err
}

// header returns the bytes with which the file begins, and no other does.
func (s *segment) header() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(segmentMagic), segmentFormat)
	b = binary.LittleEndian.AppendUint64(b, s.first)
	b = binary.LittleEndian.AppendUint32(b, s.seed)
	return binary.LittleEndian.AppendUint32(b, disk.Sum(0, b))
}

// redoes has the writes of the segment, which is in a directory, be durable in a redo log, if there is one.
func (s *segment) redoes(l *redo.Log, dir string) (err error) {
	if l != nil {
		s.again, err = l.Target(s.f, dir, s.header())
	}
	return err
}

// write writes bytes behind the entries, durably.
func (s *segment) write(b, zeros []byte) error {
	at := s.f.End
	if err := s.f.Append(b, zeros); err != nil {
		return err
	}
	if s.again != nil {
		return s.again.Wrote(at, b)
	}
	return s.f.Sync()
}

// renew makes the last write durable, with which the file ends; all before it are. It writes that again: an earlier process may have failed to sync it.
// The system tells that once, and from then on takes for written what it has only in memory.
func (s *segment) renew() error {
	last := len(s.at) - 1
	b := make([]byte, logHead)
	if err := disk.ReadFull(s.f, b, int64(s.at[last])); err != nil {
		return err
	}
	h, _ := parseHead(b, s.seed) // as it was read
	from := int64(s.at[min(max(h.write, s.first)-s.first, uint64(last))])
	b = make([]byte, s.end-from)
	if err := disk.ReadFull(s.f, b, from); err != nil {
		return err
	}
	if _, err := s.f.WriteAt(b, from); err != nil {
		return err
	}
	return s.f.Sync()
}

// settle makes the file itself durable.
func (s *segment) settle() error {
	if s.again != nil {
		return s.again.Sync()
	}
	return nil
}

// close closes the file.
func (s *segment) close() error {
	if s.again != nil {
		s.again.Done()
	}
	return s.f.Close()
}

// readSegment reads a segment and opens it. The errors are errLog and ErrNewer.
func readSegment(fsys disk.FS, path string, readOnly bool) (*segment, error) {
	b, err := disk.ReadFile(fsys, path, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	damaged := fmt.Errorf("%w: %s", errLog, path)
	switch {
	case len(b) < segmentHead || string(b[:4]) != segmentMagic || disk.Sum(0, b[:20]) != binary.LittleEndian.Uint32(b[20:]):
		return nil, damaged
	case binary.LittleEndian.Uint32(b[4:]) > segmentFormat:
		return nil, fmt.Errorf("%w: %s", ErrNewer, path)
	}
	s := &segment{first: binary.LittleEndian.Uint64(b[8:]), seed: binary.LittleEndian.Uint32(b[16:])}
	if _, err := fmt.Sscanf(strings.TrimSuffix(filepath.Base(path), segmentEnd), "%016x", &s.from); err != nil || s.from < s.first {
		return nil, damaged
	}
	rest := b[segmentHead:]
	for {
		size, ok := parseLog(rest, s.next(), s.seed, nil)
		if !ok {
			break
		}
		s.at = append(s.at, uint32(len(b)-len(rest)))
		rest = rest[size:]
	}
	s.end = int64(len(b) - len(rest))
	s.torn = len(bytes.Trim(rest, "\x00")) > 0
	if s.empty() && s.from > s.first {
		return nil, damaged
	}
	for i := range rest {
		if !s.torn {
			break
		}
		if h, ok := parseHead(rest[i:], s.seed); ok && h.index > s.next() && h.write > s.next() {
			return nil, fmt.Errorf("%w at byte %d", damaged, s.end)
		}
	}
	open := fsys.Edit
	if readOnly {
		open = fsys.Open
	}
	f, err := open(path)
	s.f = &disk.Appender{File: f, End: s.end, Length: int64(len(b))}
	return s, err
}

// read reads an entry.
func (s *segment) read(dir string, index uint64, l *raft.Log) error {
	i, end := index-s.first, s.end
	if index+1 < s.next() {
		end = int64(s.at[i+1])
	}
	b := make([]byte, end-int64(s.at[i]))
	if _, err := s.f.ReadAt(b, int64(s.at[i])); err != nil {
		return err
	}
	if _, ok := parseLog(b, index, s.seed, l); !ok {
		return fmt.Errorf("%w: %s at byte %d", errLog, s.name(dir, s.from), s.at[i])
	}
	return nil
}

// forget leaves out the entries from an index on, but not all of them.
func (s *segment) forget(index uint64) {
	i := index - s.first
	s.at, s.end = s.at[:i], int64(s.at[i])
}

// cut removes the entries that were left out from the file.
func (s *segment) cut(fsys disk.FS, path string) error {
	if s.again != nil {
		if err := s.again.Cuts(s.end); err != nil {
			return err
		}
	}
	return s.truncate(fsys, path)
}

// truncate removes what follows the entries from the file, durably.
func (s *segment) truncate(fsys disk.FS, path string) error {
	s.f.End, s.f.Length = s.end, s.end
	return fsys.Truncate(path, s.end)
}

// appendEntry appends an entry of a write.
func appendEntry(b []byte, l *raft.Log, write uint64, seed uint32) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(l.Data)))
	b = binary.LittleEndian.AppendUint64(b, l.Index)
	b = binary.LittleEndian.AppendUint64(b, l.Term)
	b = binary.LittleEndian.AppendUint64(b, write)
	b = binary.LittleEndian.AppendUint32(b, disk.Sum(seed, l.Data))
	b = append(b, byte(l.Type), 0, 0, 0)
	binary.LittleEndian.PutUint32(b[at:], disk.Sum(seed, b[at+4:]))
	return append(b, l.Data...)
}

// logEntryHead is the head of an entry.
type logEntryHead struct {
	length, sum        uint32
	index, term, write uint64
	kind               raft.LogType
}

// parseHead reads the head of an entry, and reports whether it is valid.
func parseHead(b []byte, seed uint32) (h logEntryHead, ok bool) {
	if len(b) < logHead || disk.Sum(seed, b[4:logHead]) != binary.LittleEndian.Uint32(b) {
		return h, false
	}
	return logEntryHead{
		length: binary.LittleEndian.Uint32(b[4:]), index: binary.LittleEndian.Uint64(b[8:]), term: binary.LittleEndian.Uint64(b[16:]),
		write: binary.LittleEndian.Uint64(b[24:]), sum: binary.LittleEndian.Uint32(b[32:]), kind: raft.LogType(b[36]),
	}, true
}

// parseLog reads the entry with an index into l, unless l is nil, and reports whether b begins with that entry. The
// entry's data are a slice of b.
func parseLog(b []byte, index uint64, seed uint32, l *raft.Log) (size int, ok bool) {
	h, ok := parseHead(b, seed)
	if !ok || h.index != index || uint64(h.length) > uint64(len(b)-logHead) {
		return 0, false
	}
	size = logHead + int(h.length)
	data := b[logHead:size:size]
	if disk.Sum(seed, data) != h.sum {
		return 0, false
	}
	if l != nil {
		*l = raft.Log{Index: h.index, Term: h.term, Type: h.kind, Data: data}
	}
	return size, true
}
