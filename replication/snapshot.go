package replication

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

// A snapshot is a stream of blocks: the fence, records, and an end that says how many
// there were. It is written and read a block at a time.
//
//	 0        4        8        12           16
//	┌────────┬────────┬────────┬────────────┬─────────┐
//	│ magic  │ kind   │ length │ CRC32C of  │ payload │
//	│ LDBR   │        │        │ the rest   │         │
//	└────────┴────────┴────────┴────────────┴─────────┘
const (
	blockHead  = 16
	blockMagic = 'L' | 'D'<<8 | 'B'<<16 | 'R'<<24
	blockBytes = journal.BlockBytes
	// maxBlock is the longest payload that is accepted: a segment of the table, or the gathered part of a group.
	maxBlock = 1 << 30

	blockFence   = 1
	blockRecords = 2
	blockEnd     = 3
)

// errSnapshot is returned for bytes that are not a snapshot.
var errSnapshot = errors.New("replication: a damaged snapshot")

// writeSnapshot writes a fence and everything that copy yields, in a format. It then calls logged, which returns the
// index of the last entry whose effects the copy may include.
func writeSnapshot(w io.Writer, format uint8, fence []byte, copy func(cursor uint64, dst *journal.Buffer) uint64, logged func() (uint64, error)) error {
	if err := writeBlock(w, format, blockFence, append(make([]byte, blockHead), fence...)); err != nil {
		return err
	}
	records, err := journal.Copy(copy, blockHead, func(block *journal.Buffer) error {
		return writeBlock(w, format, blockRecords, block.Bytes)
	})
	if err != nil {
		return err
	}
	end := binary.LittleEndian.AppendUint64(make([]byte, blockHead), records)
	fuzzy, err := logged()
	if err != nil {
		return err
	}
	return writeBlock(w, format, blockEnd, binary.LittleEndian.AppendUint64(end, fuzzy))
}

// writeBlock writes a block. b has room for the block's head before the payload.
func writeBlock(w io.Writer, format uint8, kind uint32, b []byte) error {
	binary.LittleEndian.PutUint32(b, blockMagic)
	binary.LittleEndian.PutUint32(b[4:], kind|uint32(format)<<8)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)-blockHead))
	binary.LittleEndian.PutUint32(b[12:], blockSum(b))
	_, err := w.Write(b)
	return err
}

func blockSum(b []byte) uint32 { return disk.Sum(0, b[:12], b[blockHead:]) }

// readSnapshot applies the records of a snapshot to an empty table. It returns the fence, and the index of the last
// entry whose effects the snapshot may include. After an error the table has a part of the snapshot.
func readSnapshot(r io.Reader, t Table) (f fence, fuzzy uint64, err error) {
	var b []byte
	var room []journal.Record
	records := uint64(0)
	for first := true; ; first = false {
		var kind uint32
		if kind, b, err = readBlock(r, b); err != nil {
			return f, 0, err
		}
		payload := b[blockHead:]
		format := kind >> 8
		kind &= 0xff
		switch {
		case format > Format:
			return f, 0, fmt.Errorf("%w: a snapshot of format %d", ErrNewer, format)
		case format == 0 || !first && format != uint32(f.inForce()):
			return f, 0, errSnapshot
		case first != (kind == blockFence):
			return f, 0, errSnapshot
		case kind == blockFence:
			f, err = parseFence(payload)
			f.format = uint8(format)
		case kind == blockRecords:
			count := uint64(0)
			if count, err = countRecords(payload); err == nil {
				records += count
				err = applyRecords(t, f.clock, payload, &room)
			}
		case kind != blockEnd || len(payload) != 16 || binary.LittleEndian.Uint64(payload) != records:
			err = errSnapshot
		default:
			if n, _ := r.Read(make([]byte, 1)); n > 0 {
				return f, 0, errSnapshot
			}
			return f, binary.LittleEndian.Uint64(payload[8:]), nil
		}
		if err != nil {
			return f, 0, err
		}
	}
}

// readBlock reads a block into b, or into a longer slice. Memory grows only with the bytes that arrive, whatever length
// the block announces.
func readBlock(r io.Reader, b []byte) (kind uint32, block []byte, err error) {
	b = append(b[:0], make([]byte, blockHead)...)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, b, fmt.Errorf("%w: %w", errSnapshot, err)
	}
	length := int(binary.LittleEndian.Uint32(b[8:]))
	if binary.LittleEndian.Uint32(b) != blockMagic || length > maxBlock {
		return 0, b, errSnapshot
	}
	for length > 0 {
		part := min(length, 1<<20)
		at := len(b)
		b = append(b, make([]byte, part)...)
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			return 0, b, fmt.Errorf("%w: %w", errSnapshot, err)
		}
		length -= part
	}
	if blockSum(b) != binary.LittleEndian.Uint32(b[12:]) {
		return 0, b, errSnapshot
	}
	return binary.LittleEndian.Uint32(b[4:]), b, nil
}

// A blockCheck checks a snapshot that passes in pieces, and keeps none of them: the sums of its blocks, their format, and that they go from a fence to an
// end. It counts no records: in blocks whose sums are right, they are those that were written.
type blockCheck struct {
	head   [blockHead]byte // of the block that is passing
	got    int             // how many bytes of the head have passed
	left   int             // how many bytes of the payload have not passed
	sum    uint32          // of what has passed of the block
	at     int64           // where the block begins
	format uint32          // of the blocks before, 0 before the first
	ended  bool
}

// Write checks the next piece. The errors are errSnapshot and ErrNewer.
func (c *blockCheck) Write(b []byte) (int, error) {
	all := len(b)
	for len(b) > 0 {
		if c.got < blockHead {
			n := copy(c.head[c.got:], b)
			b = b[n:]
			if c.got += n; c.got < blockHead {
				break
			}
			if err := c.begin(); err != nil {
				return 0, err
			}
		}
		n := min(c.left, len(b))
		c.sum = disk.Sum(c.sum, b[:n])
		b = b[n:]
		if c.left -= n; c.left > 0 {
			break
		}
		if c.sum != binary.LittleEndian.Uint32(c.head[12:]) {
			return 0, c.damaged("has another sum")
		}
		c.at += blockHead + int64(binary.LittleEndian.Uint32(c.head[8:]))
		c.got = 0
	}
	return all, nil
}

// begin checks the head of a block.
func (c *blockCheck) begin() error {
	kind := binary.LittleEndian.Uint32(c.head[4:])
	length := binary.LittleEndian.Uint32(c.head[8:])
	format := kind >> 8
	kind &= 0xff
	switch {
	case c.ended:
		return c.damaged("is behind the end")
	case binary.LittleEndian.Uint32(c.head[:]) != blockMagic || length > maxBlock:
		return c.damaged("is none")
	case format > Format:
		return fmt.Errorf("%w: a snapshot of format %d", ErrNewer, format)
	case format == 0 || c.format != 0 && format != c.format:
		return c.damaged("has another format")
	case (c.format == 0) != (kind == blockFence) || kind < blockFence || kind > blockEnd || kind == blockEnd && length != 16:
		return c.damaged("is not what belongs there")
	}
	c.format, c.ended = format, kind == blockEnd
	c.left, c.sum = int(length), disk.Sum(0, c.head[:12])
	return nil
}

// whole returns an error unless all of a snapshot has passed.
func (c *blockCheck) whole() error {
	if !c.ended || c.got > 0 {
		return c.damaged("is cut off")
	}
	return nil
}

func (c *blockCheck) damaged(how string) error {
	return fmt.Errorf("%w: the block at byte %d %s", errSnapshot, c.at, how)
}

// A checkedReader reads a snapshot and checks it meanwhile. It returns nothing of the piece in which it finds damage, so nobody gets all of such a snapshot.
type checkedReader struct {
	from    io.Reader
	left    int64 // how many bytes come
	check   blockCheck
	damaged func(error) // called for a snapshot that is damaged, or cannot be read
}

// checkedBy returns what checks a snapshot with a last entry and a size that is sent, and tells damaged.
func checkedBy(damaged func(last uint64, err error)) func(last uint64, size int64, data io.Reader) io.Reader {
	return func(last uint64, size int64, data io.Reader) io.Reader {
		return &checkedReader{from: data, left: size, damaged: func(err error) { damaged(last, err) }}
	}
}

// Read reads a piece.
func (c *checkedReader) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	_, wrong := c.check.Write(b[:n])
	if c.left -= int64(n); wrong == nil && (c.left <= 0 || errors.Is(err, io.EOF)) {
		wrong = c.check.whole()
	}
	if wrong == nil && !errors.Is(err, io.EOF) {
		wrong = err
	}
	if wrong != nil {
		c.damaged(wrong)
		return 0, wrong
	}
	return n, err
}

func countRecords(b []byte) (n uint64, err error) {
	for ; len(b) > 0 && err == nil; n++ {
		_, b, err = journal.Parse(b)
	}
	return n, err
}
