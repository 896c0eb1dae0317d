package disk

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

type sample struct {
	Name  string
	Count uint64
}

// A record is read as it was written, by the kind that it has.
func TestRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var got sample
	if err := ReadRecord(OS{}, path, "some", &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
	if err := os.WriteFile(path+TmpSuffix, []byte("an earlier write was cut short"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := sample{"a name", 1<<64 - 1}
	if err := WriteRecord(OS{}, path, "some", want); err != nil {
		t.Fatal(err)
	}
	if err := ReadRecord(OS{}, path, "some", &got); err != nil || got != want {
		t.Errorf("%+v was written, %+v is read, %v", want, got, err)
	}
	if err := ReadRecord(OS{}, path, "none", &got); !errors.Is(err, ErrDamaged) {
		t.Errorf("as another kind: %v", err)
	}
	if names, err := filepath.Glob(path + "*"); err != nil || len(names) != 1 {
		t.Errorf("it leaves %v, %v", names, err)
	}
	if _, err := Seal("some", func() {}); err == nil {
		t.Error("a value that cannot be JSON is sealed")
	}
}

// No changed bit, no other length and no other bytes pass for a record.
func TestDamagedRecords(t *testing.T) {
	good, err := Seal("some", sample{"a name", 7})
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string, at int, b []byte, want error) {
		t.Helper()
		if err := Unseal("some", b, &sample{}); !errors.Is(err, want) {
			t.Errorf("%s at %d: %v", what, at, err)
		}
	}
	for at := range good {
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[at] ^= 1 << bit
			refuse("a flipped bit", at, bad, ErrDamaged)
		}
		refuse("a cut", at, good[:at], ErrDamaged)
	}
	for _, end := range []string{"", "more"} {
		var got sample
		if err := Unseal("some", FirstRecord(append(slices.Clone(good), end...)), &got); err != nil || got.Count != 7 {
			t.Errorf("before %q: %+v, %v", end, got, err)
		}
	}
	for at := range good {
		refuse("the beginning of one", at, FirstRecord(good[:at]), ErrDamaged)
	}
	refuse("a byte more", len(good), append(slices.Clone(good), 0), ErrDamaged)
	refuse("zeros", 0, make([]byte, len(good)), ErrDamaged)
	sum := func(b []byte) []byte {
		binary.LittleEndian.PutUint32(b[recordSum:], recordCRC(b))
		return b
	}
	newer := slices.Clone(good)
	newer[4]++
	refuse("a newer format", 4, sum(newer), ErrNewer)
	longer := slices.Clone(good)
	longer[12]--
	refuse("another length", 12, sum(longer), ErrDamaged)
	more, err := Seal("some", struct{ Name, Other string }{})
	if err != nil {
		t.Fatal(err)
	}
	refuse("a field of a newer version", 0, more, ErrNewer)
}
