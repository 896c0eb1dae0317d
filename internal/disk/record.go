package disk

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// A record is what a small file holds: a value as JSON behind a header whose checksum covers all of it, so no flipped
// bit, cut or foreign file passes for another value. Numbers are little-endian.
//
//	 0      4        8      12       16       20
//	┌──────┬────────┬──────┬────────┬────────┬──────┐
//	│ LDBF │ format │ kind │ length │ CRC32C │ JSON │
//	└──────┴────────┴──────┴────────┴────────┴──────┘
const (
	// RecordMagic begins every record.
	RecordMagic = "LDBF"

	recordFormat = 1
	recordHead   = 20
	recordSum    = 16 // where the checksum of everything else is
)

var (
	// ErrDamaged is returned for bytes that are not the record that was written.
	ErrDamaged = errors.New("the checksum is wrong")
	// ErrNewer is returned for a record of a newer version.
	ErrNewer = errors.New("a newer version has written it")
)

// Seal returns a record with a value, which must be possible as JSON. kind names in four letters what it is.
func Seal(kind string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, recordHead+len(text)), RecordMagic...)
	b = binary.LittleEndian.AppendUint32(b, recordFormat)
	b = append(b, kind[:4]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, text...)
	binary.LittleEndian.PutUint32(b[recordSum:], recordCRC(b))
	return b, nil
}

// Unseal sets a value to that of a record of a kind. The errors are ErrDamaged and ErrNewer.
func Unseal(kind string, b []byte, value any) error {
	switch {
	case len(b) < recordHead || string(b[:4]) != RecordMagic || recordCRC(b) != binary.LittleEndian.Uint32(b[recordSum:]):
		return ErrDamaged
	case binary.LittleEndian.Uint32(b[4:]) > recordFormat:
		return ErrNewer
	case string(b[8:12]) != kind || uint64(binary.LittleEndian.Uint32(b[12:])) != uint64(len(b)-recordHead):
		return fmt.Errorf("it is not of the kind %q: %w", kind, ErrDamaged)
	}
	d := json.NewDecoder(bytes.NewReader(b[recordHead:]))
	d.DisallowUnknownFields()
	if err := d.Decode(value); err != nil {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	return nil
}

// FirstRecord returns the part of b that is as long as the record that b begins with.
func FirstRecord(b []byte) []byte {
	if len(b) < recordHead {
		return b
	}
	return b[:min(uint64(len(b)), recordHead+uint64(binary.LittleEndian.Uint32(b[12:])))]
}

func recordCRC(b []byte) uint32 { return Sum(0, b[:recordSum], b[recordHead:]) }

// ReadRecord sets a value to that of a file with one record. The errors are those of Unseal and of the system.
func ReadRecord(fsys FS, path, kind string, value any) error {
	b, err := ReadFile(fsys, path, Small)
	if err == nil {
		err = Unseal(kind, b, value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// WriteRecord makes a file hold one record with a value, which is durable when WriteRecord returns nil. A crash leaves
// the old file or the new one.
func WriteRecord(fsys FS, path, kind string, value any) error {
	b, err := Seal(kind, value)
	if err != nil {
		return err
	}
	return Replace(fsys, path, b)
}
