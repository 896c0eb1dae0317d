package persistence

import (
	"encoding/binary"
	"hash/crc32"
)

// Logs and bases are sequences of batches: a header of 64 bytes and records
// (package journal) behind one another.
//
//	 0       4         8         12      16         24        32      40     48      56    60     64
//	┌───────┬─────────┬─────────┬───────┬──────────┬─────────┬───────┬──────┬───────┬─────┬──────┐
//	│ magic │ payload │ records │ flags │ sequence │ synced  │ clock │ boot │ flush │ CRC │ CRC  │
//	│ LDBB  │ length  │         │       │          │ offset  │       │ time │       │ of payload,│
//	│       │         │         │       │          │         │       │      │       │ of header  │
//	└───────┴─────────┴─────────┴───────┴──────────┴─────────┴───────┴──────┴───────┴────────────┘
//
// Both checksums begin with the file's id (seedOf).
const (
	batchHeaderSize = 64
	batchMagic      = 'L' | 'D'<<8 | 'B'<<16 | 'B'<<24

	// flagEnd marks the last batch of a base, which has no records of its
	// own: its count is that of the whole file.
	flagEnd = 1
	// flagMore says that the next batch of the log goes on with the same group. A group counts
	// as a whole or not at all: it is one drain.
	flagMore = 2
	// flagNamed says that a MANIFEST that names the log was durable when the batch was written.
	flagNamed = 4
	// flagSettled says that all logs before this one were durable when the batch was written.
	flagSettled = 8

	// batchBytes is the size of payload at which a batch is closed.
	batchBytes = 4 << 20
	// blockBytes is that of a base's batch.
	blockBytes = 128 << 10
	// maxPayload is the largest payload that is believed. A batch is closed
	// at batchBytes, and a record has at most some 600 kB.
	maxPayload = 64 << 20
)

// batch is a batch's header.
type batch struct {
	length  uint32 // of the payload, in bytes
	records uint32
	flags   uint32
	// seq counts the batches of all logs of an instance, or those of a base.
	seq uint64
	// synced is up to which offset the file was known to be durable when this
	// batch was written: what is damaged below it is corruption, what is
	// damaged above and not followed by anything is a torn tail.
	synced int64
	// clock is a time that no decision until then has seen the end of, in Unix
	// ns; boot is the time since the machine's start at that moment.
	clock, boot int64
	// flush is the highest version of a Flush among the records so far.
	flush uint64
	crc   uint32 // of the payload
}

// appendTo appends the header; the payload's checksum is in it already.
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
	return binary.LittleEndian.AppendUint32(b, crc32.Update(seed, crcTable(), b[at:]))
}

// parseBatch reads a header, and reports whether it is right as far as it tells by itself. It may have flags
// that this version does not know.
func parseBatch(b []byte, seed uint32) (h batch, ok bool) {
	if len(b) < batchHeaderSize || binary.LittleEndian.Uint32(b) != batchMagic {
		return h, false
	}
	if crc32.Update(seed, crcTable(), b[:60]) != binary.LittleEndian.Uint32(b[60:]) {
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

// holds reports whether payload is what the header was written for.
func (h *batch) holds(payload []byte, seed uint32) bool {
	return crc32.Update(seed, crcTable(), payload) == h.crc
}
