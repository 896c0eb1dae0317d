package replication

import (
	"encoding/binary"
	"errors"
	"fmt"

	"limitdb/internal/disk"
)

// An entry of the Raft log; numbers are little-endian.
//
//	 0        1      2       4       8                24         32      40         44
//	┌────────┬──────┬───────┬───────┬────────────────┬──────────┬───────┬──────────┬──────┐
//	│ format │ kind │ flags │ group │ epoch          │ sequence │ clock │ CRC32C   │ body │
//	│        │      │       │       │ (node, nonce)  │          │       │ of the   │      │
//	│        │      │       │       │                │          │       │ rest     │      │
//	└────────┴──────┴───────┴───────┴────────────────┴──────────┴───────┴──────────┴──────┘
//
// The body of an Epoch is the id of the epoch that it follows (16 bytes) and the address at which clients
// reach its leader. The body of a Batch is records of package journal, behind one another.
const (
	entryHead = 44
	idSize    = 16
	crcAt     = 40

	flagLast = 1
	// maxAddress is the longest address of a leader, in bytes.
	maxAddress = 255
)

// kind says what an entry is. The numbers are in the log, so they never change.
type kind uint8

const (
	// kindEpoch begins a primary's epoch.
	kindEpoch kind = iota + 1
	// kindBatch has records of an epoch.
	kindBatch
)

// The errors of an entry. A node that reads such an entry stops: if it skipped the entry, its state would differ from
// that of the others.
var (
	// ErrEntry is returned for bytes that are not an entry.
	ErrEntry = errors.New("replication: a damaged entry")
	// ErrNewer is returned for anything that only a newer version can have written.
	ErrNewer = errors.New("replication: an entry of a newer version")
)

// id names an epoch: the node that is its primary, and a number that was drawn
// for it. The zero id names none.
type id struct{ node, nonce uint64 }

func (e id) String() string { return fmt.Sprintf("%x-%x", e.node, e.nonce) }

// entry is an entry that was parsed, or is to be encoded.
type entry struct {
	format uint8 // 0 for 1
	kind   kind
	epoch  id
	// sequence numbers the batches of an epoch from 1 on; 0 for an Epoch.
	sequence uint64
	// clock is the start of an Epoch, or a time that no decision of the Batch is later than. Unix ns.
	clock int64
	// last reports whether the Batch is the last of its group.
	last bool

	after   id     // Epoch: the epoch that it follows
	address string // Epoch: where clients reach its leader
	records []byte // Batch
}

// appendTo appends the encoded entry.
func (e *entry) appendTo(b []byte) []byte {
	at := len(b)
	flags := uint16(0)
	if e.last {
		flags = flagLast
	}
	b = append(b, max(e.format, 1), byte(e.kind))
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = e.epoch.appendTo(b)
	b = binary.LittleEndian.AppendUint64(b, e.sequence)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.clock))
	b = binary.LittleEndian.AppendUint32(b, 0)
	if e.format > 1 {
		b = append(b, make([]byte, nextExtra)...)
	}
	if e.kind == kindEpoch {
		b = e.after.appendTo(b)
		b = append(b, e.address...)
	} else {
		b = append(b, e.records...)
	}
	binary.LittleEndian.PutUint32(b[at+crcAt:], checksum(b[at:]))
	return b
}

func (e id) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.node)
	return binary.LittleEndian.AppendUint64(b, e.nonce)
}

func parseID(b []byte) id {
	return id{node: binary.LittleEndian.Uint64(b), nonce: binary.LittleEndian.Uint64(b[8:])}
}

// checksum returns the checksum of all of an entry but the checksum itself.
func checksum(b []byte) uint32 {
	return disk.Sum(0, b[:crcAt], b[entryHead:])
}

// parseEntry reads an entry. Its records are a slice of b and are not checked. The errors are ErrEntry and ErrNewer.
func parseEntry(b []byte) (e entry, err error) {
	switch {
	case len(b) == 0:
		return e, ErrEntry
	case b[0] > Format:
		return e, fmt.Errorf("%w: format %d", ErrNewer, b[0])
	case b[0] == 0 || len(b) < entryHead || checksum(b) != binary.LittleEndian.Uint32(b[crcAt:]):
		return e, ErrEntry
	}
	flags, group := binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:])
	e = entry{
		format: b[0], kind: kind(b[1]), epoch: parseID(b[8:]), last: flags&flagLast != 0,
		sequence: binary.LittleEndian.Uint64(b[24:]), clock: int64(binary.LittleEndian.Uint64(b[32:])),
	}
	body := b[entryHead:]
	if e.format > 1 {
		if len(body) < nextExtra {
			return entry{}, ErrEntry
		}
		body = body[nextExtra:]
	}
	switch {
	case group != 0:
		return entry{}, fmt.Errorf("%w: group %d", ErrNewer, group)
	case flags&^flagLast != 0:
		return entry{}, fmt.Errorf("%w: flags %x", ErrNewer, flags)
	case e.kind == kindBatch:
		e.records = body
	case e.kind != kindEpoch:
		return entry{}, fmt.Errorf("%w: kind %d", ErrNewer, b[1])
	case len(body) < idSize || len(body) > idSize+maxAddress:
		return entry{}, ErrEntry
	default:
		e.after, e.address = parseID(body), string(body[idSize:])
	}
	if e.epoch == (id{}) || (e.kind == kindEpoch) != (e.sequence == 0) || e.kind == kindEpoch && (e.last || e.epoch == e.after) {
		return entry{}, ErrEntry
	}
	return e, nil
}
