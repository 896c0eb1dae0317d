package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"limitdb/internal/disk"
)

// chunkBytes is how many bytes of a file are read in one call, unless a batch is larger.
const chunkBytes = 1 << 20

// piece is one batch of a chunk.
type piece struct {
	batch
	off     int64 // in the file
	payload []byte
}

// chunk is a part of a file: whole batches in a row.
type chunk struct {
	buf    []byte
	pieces []piece
	name   string       // the file's
	log    bool         // whether the file is a log, not a base
	left   atomic.Int32 // workers that still use it
}

// reader reads the batches of a log or a base and checks what can be checked without knowing what the records
// mean. It never reads beyond the file's size, and so never allocates more than that.
type reader struct {
	f    disk.File
	name string
	header
	size int64  // of the file, without the zeros at the end of a log that was read to its end
	off  int64  // of the next batch
	seq  uint64 // the sequence number that the next batch must have; 0 for any
	// synced is how much of a log was durable, as far as its batches say.
	synced int64
}

// badBatch says why the bytes at an offset are not the next batch.
type badBatch struct {
	off    int64
	reason string
	// whole: the header is valid, but the batch cannot be the next one. A crash cannot cause that.
	whole bool
	// newer: the batch has flags that this version does not know.
	newer bool
}

func (e *badBatch) Error() string { return fmt.Sprintf("%s at offset %d", e.reason, e.off) }

// newReader reads the file's header. Errors: *CorruptError, ErrFormat, and those of the file.
func newReader(f disk.File, name string, kind fileKind) (*reader, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(headerSize, size))
	if err := disk.ReadFull(f, b, 0); err != nil {
		return nil, err
	}
	h, err := parseHeader(b, kind)
	if errors.Is(err, errHeader) {
		return nil, &CorruptError{name, 0, err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &reader{f: f, name: name, header: h, size: size, off: headerSize}, nil
}

// read fills c with the next batches. It returns io.EOF at the end of the file, a *badBatch if no batch
// follows, or the file's error.
func (r *reader) read(c *chunk) error {
	c.pieces = c.pieces[:0]
	if r.off >= r.size {
		return io.EOF
	}
	want := min(int64(chunkBytes), r.size-r.off)
	for {
		c.buf = grow(c.buf, want)
		if err := disk.ReadFull(r.f, c.buf, r.off); err != nil {
			return err
		}
		need, bad := r.cut(c)
		switch {
		case len(c.pieces) > 0:
			return nil
		case bad != nil && bad.newer:
			return fmt.Errorf("%s: %w (%v)", r.name, ErrFormat, bad)
		case bad != nil:
			return r.ends(bad)
		}
		want = need
	}
}

// ends decides whether bad is merely the end of a log: only zeros follow, which were written ahead (see
// logFile). If so, it sets the reader's size to that place and returns io.EOF; else it returns bad.
func (r *reader) ends(bad *badBatch) error {
	if r.kind != kindLog || bad.whole {
		return bad
	}
	end, err := r.dataEnd(bad.off)
	switch {
	case err != nil:
		return err
	case end > bad.off:
		return bad
	}
	r.size = end
	return io.EOF
}

// dataEnd returns the offset of the zeros that end the file, or off if they begin earlier.
func (r *reader) dataEnd(off int64) (int64, error) {
	var buf []byte
	for end := r.size; end > off; end -= int64(len(buf)) {
		buf = grow(buf, min(chunkBytes, end-off))
		if err := disk.ReadFull(r.f, buf, end-int64(len(buf))); err != nil {
			return 0, err
		}
		if data := bytes.TrimRight(buf, "\x00"); len(data) > 0 {
			return end - int64(len(buf)-len(data)), nil
		}
	}
	return off, nil
}

// cut makes pieces of the whole batches in c.buf. If there is not even one, it returns how many bytes the
// first one needs, or what is wrong with it.
func (r *reader) cut(c *chunk) (need int64, bad *badBatch) {
	seed := seedOf(r.id)
	for at := 0; at < len(c.buf); {
		b := c.buf[at:]
		left := r.size - r.off
		h, ok := parseBatch(b, seed)
		switch total := batchHeaderSize + int64(h.length); {
		case len(b) < batchHeaderSize && left >= batchHeaderSize:
			return batchHeaderSize, nil
		case !ok:
			bad = &badBatch{off: r.off, reason: "no batch header"}
		case total > left:
			bad = &badBatch{off: r.off, reason: "a batch that ends after the file"}
		case r.seq != 0 && h.seq != r.seq:
			bad = &badBatch{off: r.off, reason: fmt.Sprintf("batch %d where %d is next", h.seq, r.seq), whole: true}
		case h.flags&^knownFlags != 0:
			bad = &badBatch{off: r.off, reason: fmt.Sprintf("a batch with the flags %#x", h.flags), newer: true}
		case total > int64(len(b)):
			return total, nil
		case !h.holds(b[batchHeaderSize:total], seed):
			bad = &badBatch{off: r.off, reason: "a batch whose checksum is wrong"}
		default:
			c.pieces = append(c.pieces, piece{h, r.off, b[batchHeaderSize:total:total]})
			r.off += total
			r.seq = h.seq + 1
			at += int(total)
			continue
		}
		if len(c.pieces) > 0 {
			return 0, nil // the next call reports it
		}
		return 0, bad
	}
	return 0, nil
}

// each calls fn for each batch header from off on, whatever its sequence number, until fn returns false.
func (r *reader) each(off int64, fn func(at int64, h *batch) (more bool)) error {
	const overlap = batchHeaderSize - 1
	mark := []byte{'L', 'D', 'B', 'B'}
	var buf []byte
	for ; off < r.size; off += int64(len(buf)) - overlap {
		buf = grow(buf, min(chunkBytes, r.size-off))
		if err := disk.ReadFull(r.f, buf, off); err != nil {
			return err
		}
		for i := 0; ; i++ {
			j := bytes.Index(buf[i:], mark)
			if j < 0 {
				break
			}
			i += j
			// A header that is cut off here is whole in the next buffer.
			if h, ok := parseBatch(buf[i:], seedOf(r.id)); ok && !fn(off+int64(i), &h) {
				return nil
			}
		}
		if len(buf) <= overlap || off+int64(len(buf)) == r.size {
			break
		}
	}
	return nil
}

// after searches from off on for a batch header with any sequence number, and returns its offset and content.
// found is false if there is none in the rest of the file.
func (r *reader) after(off int64) (at int64, h batch, found bool, err error) {
	err = r.each(off, func(where int64, next *batch) bool {
		at, h, found = where, *next, true
		return false
	})
	return at, h, found, err
}

// behind reports what the batches from an offset on say about the data before them, and about a place that
// may be damaged.
func (r *reader) behind(from, place int64) (t telling, err error) {
	err = r.each(from, func(_ int64, h *batch) bool {
		t.any = true
		t.past = t.past || h.synced > place
		t.vouched = t.vouched || h.flags&flagVouches != 0
		return !t.past
	})
	return t, err
}

// telling is what batches say about the data before them.
type telling struct {
	any     bool // there is a batch
	past    bool // the file had been synced beyond the place
	vouched bool // all earlier logs had been synced
}

// grow returns b with length n.
func grow(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}
