package persistence

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"limitdb/internal/disk"
)

const (
	manifestName = "MANIFEST"
	cleanName    = "CLEAN"
	// retiredName is the name of MANIFEST once the log was turned off; see Retire.
	retiredName = "MANIFEST.off"
	tmpSuffix   = disk.TmpSuffix

	manifestKind = "list" // of the record in MANIFEST
	cleanKind    = "stop" // of that in CLEAN
)

// manifest lists the files that count: at most one base, and the logs that follow it, in order.
type manifest struct {
	instance [16]byte   // the directory
	base     *baseEntry // nil for none
	logs     []logEntry
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

// files returns the names of the files, in the order in which a start reads them.
func (m *manifest) files() (names []string) {
	if m.base != nil {
		names = append(names, m.base.name())
	}
	for _, l := range m.logs {
		names = append(names, l.name())
	}
	return names
}

// names reports whether the manifest lists a file of this name.
func (m *manifest) names(name string) bool { return slices.Contains(m.files(), name) }

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

// inOrder compares the names of two data files: bases come first, and then the number counts, which may have more digits than usual.
func inOrder(a, b string) int {
	kindA, numberA, _ := fileNumber(a)
	kindB, numberB, _ := fileNumber(b)
	return cmp.Or(cmp.Compare(kindA, kindB), cmp.Compare(numberA, numberB))
}

// isData reports whether a file of this name is a log or a snapshot.
func isData(name string) bool {
	_, _, data := fileNumber(name)
	return data
}

// storedManifest is the content of MANIFEST.
type storedManifest struct {
	Instance string
	Base     *storedFile // nil for none
	Logs     []storedFile
}

type storedFile struct {
	Number, ID uint64
	Length     int64  `json:",omitempty"` // of a base
	First      uint64 `json:",omitempty"` // of a log: the sequence number of its first batch
}

// seal returns the record for MANIFEST.
func (m *manifest) seal() ([]byte, error) {
	st := storedManifest{Instance: hex.EncodeToString(m.instance[:])}
	if b := m.base; b != nil {
		st.Base = &storedFile{Number: b.number, ID: b.id, Length: b.length}
	}
	for _, l := range m.logs {
		st.Logs = append(st.Logs, storedFile{Number: l.number, ID: l.id, First: l.first})
	}
	return disk.Seal(manifestKind, st)
}

// parseManifest parses the bytes of a whole file. Errors: disk.ErrDamaged, disk.ErrNewer.
func parseManifest(b []byte) (*manifest, error) {
	var st storedManifest
	if err := disk.Unseal(manifestKind, b, &st); err != nil {
		return nil, err
	}
	m := &manifest{}
	if len(st.Instance) != hex.EncodedLen(len(m.instance)) {
		return nil, disk.ErrDamaged
	}
	if _, err := hex.Decode(m.instance[:], []byte(st.Instance)); err != nil {
		return nil, disk.ErrDamaged
	}
	if f := st.Base; f != nil {
		m.base = &baseEntry{f.Number, f.ID, f.Length}
	}
	for _, f := range st.Logs {
		m.logs = append(m.logs, logEntry{f.Number, f.ID, f.First})
	}
	return m, nil
}

// readManifestFile reads a MANIFEST. Errors: fs.ErrNotExist, ErrFormat, *CorruptError, and those of the file
// system.
func readManifestFile(fsys disk.FS, name string) (*manifest, error) {
	b, err := disk.ReadFile(fsys, name, disk.Small)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(b)
	switch {
	case errors.Is(err, disk.ErrNewer):
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), ErrFormat)
	case err != nil:
		return nil, &CorruptError{name, 0, err.Error()}
	}
	return m, nil
}

// clean is the content of CLEAN, which is written at the end of a run, once everything is synced. The next run removes it
// before it writes anything.
type clean struct {
	Instance string
	File     uint64 // the id of the last log, or of the base if there is no log; 0 if there is neither
	Length   int64  // of that file
	Sequence uint64 // of the last batch
	Clock    int64  // as in a batch
	Boot     uint64 // names the machine's start
	Elapsed  int64  // since then, in ns
}
