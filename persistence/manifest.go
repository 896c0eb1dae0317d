package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"limitdb/internal/disk"
)

// The MANIFEST lists the files that count: at most one base, and the logs that follow it, in order. After the
// file's header:
//
//	 64       68 …                                     end−4   end
//	┌────────┬────────────────────────────────────────┬───────┐
//	│ number │ for each: kind, number, id, length or  │  CRC  │
//	│ of     │ first sequence (8 bytes each)          │       │
//	│ files  │                                        │       │
//	└────────┴────────────────────────────────────────┴───────┘
const (
	manifestName = "MANIFEST"
	cleanName    = "CLEAN"
	// retiredName is the name of MANIFEST once the log was turned off; see Retire.
	retiredName = "MANIFEST.off"
	tmpSuffix   = disk.TmpSuffix

	entrySize = 32
	maxFiles  = 1 << 16
)

// manifest is the content of MANIFEST.
type manifest struct {
	header
	base *baseEntry // nil for none
	logs []logEntry
}

type baseEntry struct {
	number, id uint64
	length     int64 // of the file, in bytes
}

type logEntry struct {
	number, id uint64
	// first is the sequence number of the log's first batch; 0 means that it follows from the log before.
	first uint64
}

// errManifest is returned for a manifest that cannot be read.
var errManifest = errors.New("not a manifest, or a damaged one")

func (e *baseEntry) name() string { return fileName("base", e.number) }
func (e *logEntry) name() string  { return fileName("log", e.number) }

// next returns a number that no file of the manifest has.
func (m *manifest) next() uint64 {
	n := uint64(0)
	if m.base != nil {
		n = m.base.number
	}
	for _, l := range m.logs {
		n = max(n, l.number)
	}
	return n + 1
}

// names reports whether the manifest lists a file of this name.
func (m *manifest) names(name string) bool {
	if m.base != nil && m.base.name() == name {
		return true
	}
	for _, l := range m.logs {
		if l.name() == name {
			return true
		}
	}
	return false
}

func fileName(kind string, number uint64) string { return fmt.Sprintf("%s-%08d", kind, number) }

// fileNumber returns the kind and the number in the name of a log or base; ok is false for other names.
func fileNumber(name string) (kind fileKind, number uint64, ok bool) {
	prefix, digits, found := strings.Cut(name, "-")
	switch {
	case !found:
		return 0, 0, false
	case prefix == "base":
		kind = kindBase
	case prefix == "log":
		kind = kindLog
	default:
		return 0, 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return kind, number, err == nil && name == fileName(prefix, number)
}

func (m *manifest) appendTo(b []byte) []byte {
	h := m.header
	h.kind = kindManifest
	b = appendFileHeader(b, &h)
	at := len(b)
	n := len(m.logs)
	if m.base != nil {
		n++
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	add := func(kind fileKind, words ...uint64) {
		b = binary.LittleEndian.AppendUint64(b, uint64(kind))
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	if m.base != nil {
		add(kindBase, m.base.number, m.base.id, uint64(m.base.length))
	}
	for _, l := range m.logs {
		add(kindLog, l.number, l.id, l.first)
	}
	return binary.LittleEndian.AppendUint32(b, disk.Sum(seedOf(h.id), b[at:]))
}

// parseManifest parses the bytes of a whole file. Errors: errHeader, errManifest, ErrFormat.
func parseManifest(b []byte) (*manifest, error) {
	h, err := parseHeader(b, kindManifest)
	if err != nil {
		return nil, err
	}
	b = b[headerSize:]
	if len(b) < 8 {
		return nil, errManifest
	}
	n := binary.LittleEndian.Uint32(b)
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if n > maxFiles || len(body) != 4+int(n)*entrySize || disk.Sum(seedOf(h.id), body) != sum {
		return nil, errManifest
	}
	m := &manifest{header: h}
	seen := map[string]bool{}
	for e := body[4:]; len(e) > 0; e = e[entrySize:] {
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(e[8*i:]) }
		var name string
		switch fileKind(word(0)) {
		case kindBase:
			m.base = &baseEntry{word(1), word(2), int64(word(3))}
			name = m.base.name()
			if len(seen) > 0 || m.base.length < 0 {
				return nil, errManifest
			}
		case kindLog:
			m.logs = append(m.logs, logEntry{word(1), word(2), word(3)})
			name = m.logs[len(m.logs)-1].name()
		}
		if name == "" || seen[name] {
			return nil, errManifest
		}
		seen[name] = true
	}
	return m, nil
}

// CLEAN is written at the end of a run, once everything is synced. The next run removes it before it writes
// anything. The base field of its header is the id of the last log, or of the base if there is no log. After
// the header:
//
//	 64       72         80      88     96    100
//	┌────────┬──────────┬───────┬──────┬─────┐
//	│ length │ sequence │ clock │ boot │ CRC │
//	└────────┴──────────┴───────┴──────┴─────┘
const cleanSize = headerSize + 36

// clean is the content of CLEAN.
type clean struct {
	header
	length      int64  // of the last file
	seq         uint64 // of the last batch
	clock, boot int64  // as in a batch
}

// errClean is returned for a CLEAN file that cannot be read.
var errClean = errors.New("not a CLEAN file, or a damaged one")

func (c *clean) appendTo(b []byte) []byte {
	h := c.header
	h.kind = kindClean
	b = appendFileHeader(b, &h)
	at := len(b)
	for _, w := range []uint64{uint64(c.length), c.seq, uint64(c.clock), uint64(c.boot)} {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return binary.LittleEndian.AppendUint32(b, disk.Sum(seedOf(h.id), b[at:]))
}

// parseClean parses the bytes of a whole file. Errors: errHeader, errClean, ErrFormat.
func parseClean(b []byte) (c clean, err error) {
	if c.header, err = parseHeader(b, kindClean); err != nil {
		return c, err
	}
	if len(b) != cleanSize || disk.Sum(seedOf(c.id), b[headerSize:cleanSize-4]) != binary.LittleEndian.Uint32(b[cleanSize-4:]) {
		return c, errClean
	}
	b = b[headerSize:]
	c.length = int64(binary.LittleEndian.Uint64(b))
	c.seq = binary.LittleEndian.Uint64(b[8:])
	c.clock = int64(binary.LittleEndian.Uint64(b[16:]))
	c.boot = int64(binary.LittleEndian.Uint64(b[24:]))
	return c, nil
}

// parseManifestFile reads a MANIFEST. Errors: fs.ErrNotExist, ErrFormat, *CorruptError, and those of the file
// system.
func parseManifestFile(fsys disk.FS, name string) (*manifest, error) {
	b, err := disk.ReadFile(fsys, name, disk.Small)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(b)
	switch {
	case errors.Is(err, ErrFormat):
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
	case err != nil:
		return nil, &CorruptError{name, 0, err.Error()}
	}
	return m, nil
}
