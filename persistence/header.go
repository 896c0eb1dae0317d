package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"limitdb/internal/disk"
)

// Each log and each base begins with a header of 64 bytes (FORMAT.md draws it):
//
//	 0          8         12        16          32        40      48     56       60    64
//	┌──────────┬─────────┬─────────┬───────────┬─────────┬───────┬──────┬────────┬─────┐
//	│ LIMITDB  │ format  │    0    │ instance  │ file id │ base  │ boot │   0    │ CRC │
//	│ and kind │ version │         │  (UUID)   │         │  id   │  id  │        │     │
//	└──────────┴─────────┴─────────┴───────────┴─────────┴───────┴──────┴────────┴─────┘
const (
	headerSize = 64
	magic      = "LIMITDB"
	// formatVersion is the version that the store reads and writes.
	formatVersion = 1
)

// fileKind is the last byte of a file's magic.
type fileKind byte

const (
	kindLog  fileKind = 'L'
	kindBase fileKind = 'B'
)

// header is the header of a file.
type header struct {
	kind     fileKind
	instance [16]byte // the directory that the file belongs to
	id       uint64   // of the file; random
	base     uint64   // the id of the base that a log follows; 0 for none
	boot     uint64   // names the machine's start when the file was written; 0 if unknown
}

// errHeader is returned for bytes that are not a header.
var errHeader = errors.New("not a header of a limitdb file, or a damaged one")

func appendFileHeader(b []byte, h *header) []byte {
	at := len(b)
	b = append(b, magic...)
	b = append(b, byte(h.kind))
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, h.instance[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.id)
	b = binary.LittleEndian.AppendUint64(b, h.base)
	b = binary.LittleEndian.AppendUint64(b, h.boot)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, disk.Sum(0, b[at:]))
}

// parseHeader reads a header of the given kind. Errors: errHeader, ErrFormat.
func parseHeader(b []byte, kind fileKind) (h header, err error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return h, errHeader
	}
	// The checksum has the same place in every format, so that a damaged header is not mistaken for a newer
	// one.
	if disk.Sum(0, b[:60]) != binary.LittleEndian.Uint32(b[60:]) {
		return h, errHeader
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return h, fmt.Errorf("%w (%d, known is %d)", ErrFormat, v, formatVersion)
	}
	if fileKind(b[7]) != kind {
		return h, errHeader
	}
	h.kind = kind
	copy(h.instance[:], b[16:])
	h.id = binary.LittleEndian.Uint64(b[32:])
	h.base = binary.LittleEndian.Uint64(b[40:])
	h.boot = binary.LittleEndian.Uint64(b[48:])
	return h, nil
}

// seedOf returns the value from which the checksums inside a file start. A disk block may still hold bytes of
// another file; with that file's seed their checksums do not match.
func seedOf(id uint64) uint32 {
	return uint32(id) ^ bits.RotateLeft32(uint32(id>>32), 7)
}
