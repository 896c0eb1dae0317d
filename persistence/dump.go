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

// dumper writes records as lines of JSON; a nil one does not.
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

// record writes one record of a batch.
func (d *dumper) record(file string, p *piece, r *journal.Record) error {
	if d == nil {
		return nil
	}
	line := dumped{File: file, Offset: p.off, Batch: p.seq, Clock: p.clock, Version: r.Version, Kind: r.Kind}
	switch r.Op {
	case journal.Set:
		line.Op = "set"
	case journal.Change:
		line.Op = "change"
	case journal.Delete:
		line.Op = "delete"
	case journal.Flush:
		line.Op = "flush"
	}
	if r.Op == journal.Set || r.Op == journal.Change {
		line.State = hex.EncodeToString(r.State)
		if journal.Timed(r.Kind) {
			line.Expires = r.Expires()
		}
	}
	if line.Key = string(r.Key); !utf8.Valid(r.Key) {
		line.Key, line.KeyHex = "", hex.EncodeToString(r.Key)
	}
	if err := json.NewEncoder(d.w).Encode(&line); err != nil {
		return fmt.Errorf("%w: %w", errDump, err)
	}
	return nil
}
