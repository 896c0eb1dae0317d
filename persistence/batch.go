package persistence

import (
	"encoding/binary"

	"limitdb/internal/disk"
)

// A log or a base is a sequence of batches. A batch is a header of 64 bytes followed by records (package
// journal).
//
//	 0       4         8         12      16         24        32      40     48      56    60     64
//	┌───────┬─────────┬─────────┬───────┬──────────┬─────────┬───────┬──────┬───────┬─────┬──────┐
//	│ magic │ payload │ records │ flags │ sequence │ synced  │ clock │ boot │ flush │ CRC │ CRC  │
//	│ LDBB  │ length  │         │       │          │ offset  │       │ time │       │ of payload,│
//	│       │         │         │       │          │         │       │      │       │ of header  │
//	└───────┴─────────┴─────────┴───────┴──────────┴─────────┴───────┴──────┴───────┴────────────┘
//
// Both checksums start from the file's id (seedOf).
const (
	batchHeaderSize = 64
	batchMagic      = 'L' | 'D'<<8 | 'B'<<16 | 'B'<<24

	// flagEnd marks the last batch of a base. It has no records; its count is that of the whole file.
	flagEnd = 1
	// flagMore says that the group continues with the next batch of the log. A group is the result of one
	// drain; it counts as a whole or not at all.
	flagMore = 2
	// flagNamed says that, when the batch was written, a MANIFEST that names the log was durable.
	flagNamed = 4
	// flagVouches says that, when the batch was written, all earlier logs were durable.
	flagVouches = 8
	knownFlags  = flagEnd | flagMore | flagNamed | flagVouches

	// batchBytes is the size of the payload, in bytes, at which a batch is closed.
	batchBytes = 4 << 20
	// maxPayload is the largest payload length that a reader accepts. A batch is closed at batchBytes, and a
	// record has at most about 600 kB.
	maxPayload = 64 << 20
)

// batch is the header of a batch.
type batch struct {
	length  uint32 // of the payload, in bytes
	records uint32
	flags   uint32
	// seq counts the batches of all logs of an instance, or those of one base.
	seq uint64
	// synced is the offset up to which the file was known to be durable when this batch was written. Damage
	// below it is corruption. Damage above it, with nothing after it, is a torn tail.
	synced int64
	// clock is the time when the batch was written, in Unix ns: no decision in it or before it was made
	// later. boot is the time since the machine's start at that moment, in ns.
	clock, boot int64
	// flush is the highest version of a Flush among the records up to and including this batch.
	flush uint64
	crc   uint32 // of the payload
}

// appendTo appends the header. The payload's checksum must be set already.
func (h *batch) appendTo(b []byte, seed uint32) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, batchMagic)
	b = binary.LittleEndian.AppendUint32(b, h.length)
	b = binary.LittleEndian.AppendUint32(b, h.records)
	b = binary.LittleEndian.AppendUint32(b, h.flags)
	b = binary.LittleEndian.AppendUint64(b, h.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.synced))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.clock))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.boot))
	b = binary.LittleEndian.AppendUint64(b, h.flush)
	b = binary.LittleEndian.AppendUint32(b, h.crc)
	return binary.LittleEndian.AppendUint32(b, disk.Sum(seed, b[at:]))
}

// parseBatch reads a header, and reports whether it is valid as far as the header alone shows. The header may
// have flags that this version does not know.
func parseBatch(b []byte, seed uint32) (h batch, ok bool) {
	if len(b) < batchHeaderSize || binary.LittleEndian.Uint32(b) != batchMagic {
		return h, false
	}
	if disk.Sum(seed, b[:60]) != binary.LittleEndian.Uint32(b[60:]) {
		return h, false
	}
	h = batch{
		length:  binary.LittleEndian.Uint32(b[4:]),
		records: binary.LittleEndian.Uint32(b[8:]),
		flags:   binary.LittleEndian.Uint32(b[12:]),
		seq:     binary.LittleEndian.Uint64(b[16:]),
		synced:  int64(binary.LittleEndian.Uint64(b[24:])),
		clock:   int64(binary.LittleEndian.Uint64(b[32:])),
		boot:    int64(binary.LittleEndian.Uint64(b[40:])),
		flush:   binary.LittleEndian.Uint64(b[48:]),
		crc:     binary.LittleEndian.Uint32(b[56:]),
	}
	return h, h.length <= maxPayload && h.synced >= 0
}

// holds reports whether payload matches the header's checksum.
func (h *batch) holds(payload []byte, seed uint32) bool {
	return disk.Sum(seed, payload) == h.crc
}
