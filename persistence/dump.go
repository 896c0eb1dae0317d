package persistence

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"limitdb/internal/journal"
)

// errDump is returned if the dump cannot be written.
var errDump = errors.New("writing the dump")

// dumper writes records as lines of JSON.
type dumper struct{ w io.Writer }

// dumped is one line.
type dumped struct {
	File    string `json:"file"`
	Offset  int64  `json:"offset"` // of the record's batch
	Batch   uint64 `json:"batch"`
	Clock   int64  `json:"clock"` // Unix ns
	Op      string `json:"op"`
	Version uint64 `json:"version"`
	Kind    byte   `json:"kind,omitempty"` // the algorithm's number
	Key     string `json:"key,omitempty"`
	KeyHex  string `json:"key_hex,omitempty"` // if the key is not UTF-8
	Expires int64  `json:"expires,omitempty"` // Unix ns
	State   string `json:"state,omitempty"`   // hexadecimal
}

// records counts the records of a batch, and dumps them.
func (c *checker) records(rep *FileReport, file string, p *piece) error {
	for b := p.payload; len(b) > 0; {
		r, rest, err := journal.Parse(b)
		if err != nil {
			return fmt.Errorf("after %d bytes of its payload: %w", len(p.payload)-len(b), err)
		}
		b = rest
		line := dumped{File: file, Offset: p.off, Batch: p.seq, Clock: p.clock, Version: r.Version, Kind: r.Kind}
		if r.Op != journal.Flush && c.o.Known != nil && !c.o.Known(r.Kind) {
			return fmt.Errorf("%w (a record is of kind %d)", ErrFormat, r.Kind)
		}
		switch r.Op {
		case journal.Set:
			rep.Sets++
			line.Op, line.State = "set", hex.EncodeToString(r.State)
			if journal.Timed(r.Kind) {
				line.Expires = r.Expires()
			}
		case journal.Change:
			rep.Changes++
			line.Op, line.State = "change", hex.EncodeToString(r.State)
			if journal.Timed(r.Kind) {
				line.Expires = r.Expires()
			}
		case journal.Delete:
			rep.Deletes++
			line.Op = "delete"
		case journal.Flush:
			rep.Flushes++
			line.Op = "flush"
		}
		if c.dump == nil {
			continue
		}
		if line.Key = string(r.Key); !utf8.Valid(r.Key) {
			line.Key, line.KeyHex = "", hex.EncodeToString(r.Key)
		}
		if err := json.NewEncoder(c.dump.w).Encode(&line); err != nil {
			return fmt.Errorf("%w: %w", errDump, err)
		}
	}
	return nil
}
