package redo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"limitdb/internal/disk"
)

// A file of the redo log is a header and frames; replication/PROTOCOL.md draws both. The frames end where no valid frame follows. If a frame of a
// later batch follows all the same, the batch between was durable once, and the file is damaged.

const (
	magic     = "LDBW"
	format    = 1
	headBytes = 24
	frameHead = 32
	fileEnd   = ".redo"
)

var (
	// ErrDamaged is returned for a redo log that has lost something that was durable.
	ErrDamaged = errors.New("damaged redo log: remove this node from the cluster, empty its directory, and add it again")
	// ErrNewer is returned for a redo log of a later version.
	ErrNewer = errors.New("redo log of a later version")
)

// action is what a frame does.
type action byte

const (
	actWrite action = 0 // writes bytes at an offset
	actCut   action = 1 // cuts the file off at an offset
)

// frame is something that was done to a file.
type frame struct {
	action    action
	batch     uint64 // in which it became durable, from 1 on in each file of the redo log
	ends      bool   // it is the last of its batch
	dir, head string // of the file
	off       int64
	data      []byte
}

// appendHeader appends the header of the file of the redo log with a number.
func appendHeader(b []byte, number uint64, seed uint32) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(append(b, magic...), format)
	b = binary.LittleEndian.AppendUint64(b, number)
	b = binary.LittleEndian.AppendUint32(b, seed)
	return binary.LittleEndian.AppendUint32(b, disk.Sum(0, b[at:]))
}

// append appends the frame. The seed is that of the file.
func (f *frame) append(b []byte, seed uint32) []byte {
	at := len(b)
	b = append(b, make([]byte, frameHead)...)
	b = append(append(append(b, f.dir...), f.head...), f.data...)
	h := b[at : at+frameHead]
	binary.LittleEndian.PutUint32(h[4:], uint32(len(f.data)))
	binary.LittleEndian.PutUint64(h[8:], f.batch)
	binary.LittleEndian.PutUint64(h[16:], uint64(f.off))
	binary.LittleEndian.PutUint32(h[24:], disk.Sum(seed, b[at+frameHead:]))
	h[28], h[29], h[30] = byte(f.action), byte(len(f.dir)), byte(len(f.head))
	if f.ends {
		h[31] = 1
	}
	binary.LittleEndian.PutUint32(h, disk.Sum(seed, h[4:]))
	return b
}

// parseFrame reads the frame with which b begins, and reports whether it is valid. size is its length.
func parseFrame(b []byte, seed uint32) (f frame, size int, ok bool) {
	h, ok := parseHead(b, seed)
	if !ok {
		return f, 0, false
	}
	dir, head, length := int(b[29]), int(b[30]), uint64(binary.LittleEndian.Uint32(b[4:]))
	rest := b[frameHead:]
	if uint64(dir+head)+length > uint64(len(rest)) {
		return f, 0, false
	}
	body := rest[:uint64(dir+head)+length]
	if disk.Sum(seed, body) != binary.LittleEndian.Uint32(b[24:]) {
		return f, 0, false
	}
	h.dir, h.head, h.data = string(body[:dir]), string(body[dir:dir+head]), body[dir+head:]
	return h, frameHead + len(body), true
}

// parseHead reads the head of a frame, and reports whether it is valid.
func parseHead(b []byte, seed uint32) (f frame, ok bool) {
	if len(b) < frameHead || disk.Sum(seed, b[4:frameHead]) != binary.LittleEndian.Uint32(b) {
		return f, false
	}
	f = frame{action: action(b[28]), ends: b[31] == 1, batch: binary.LittleEndian.Uint64(b[8:]), off: int64(binary.LittleEndian.Uint64(b[16:]))}
	return f, f.off >= 0 && f.action <= actCut
}

// readFile reads the frames of a file of the redo log. The errors are ErrDamaged and ErrNewer.
func readFile(fsys disk.FS, name string) (all []frame, err error) {
	b, err := disk.ReadFile(fsys, name, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	damaged := fmt.Errorf("%w: %s", ErrDamaged, name)
	switch {
	case len(b) < headBytes || string(b[:4]) != magic || disk.Sum(0, b[:20]) != binary.LittleEndian.Uint32(b[20:]):
		return nil, damaged
	case binary.LittleEndian.Uint32(b[4:]) > format:
		return nil, fmt.Errorf("%w: %s", ErrNewer, name)
	}
	seed, rest, batch := binary.LittleEndian.Uint32(b[16:]), b[headBytes:], uint64(1)
	for {
		f, size, ok := parseFrame(rest, seed)
		if !ok || f.batch != batch {
			break
		}
		if f.ends {
			batch++
		}
		all = append(all, f)
		rest = rest[size:]
	}
	// The sync of this batch may not have ended. But a later batch is written after that.
	for i := range rest {
		if h, ok := parseHead(rest[i:], seed); ok && h.batch > batch {
			return nil, fmt.Errorf("%w at byte %d", damaged, len(b)-len(rest))
		}
	}
	return all, nil
}
