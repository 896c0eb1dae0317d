package linefile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Different bytes are different strings of JSON.
func TestTextsStayDifferent(t *testing.T) {
	keys := rapid.SliceOfN(rapid.SampledFrom([]byte("\\x0f\xff\xc3\xbc\"\x00")), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		var x, y string
		if err := json.Unmarshal(AppendString(nil, a), &x); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(AppendString(nil, b), &y); err != nil {
			t.Fatal(err)
		}
		if (x == y) != (string(a) == string(b)) {
			t.Errorf("%q and %q are %q and %q", a, b, x, y)
		}
	})
}

// The file and the one before it stay within their bound, and have the latest lines whole.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f := File{Name: "test-log", Path: path, MaxBytes: 200}
	if err := f.Open(); err != nil || !f.IsOpen() {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 29) + "\n")
	for range 50 {
		if f.Full(0, len(line)) {
			if err := f.Turn(); err != nil {
				t.Fatal(err)
			}
		}
		if whole, err := f.Write(line); err != nil || whole != len(line) {
			t.Fatal(whole, err)
		}
	}
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path + ".1")
	if err != nil || len(before) != 90 || len(now) != 60 || int64(len(now)) != f.Size() {
		t.Errorf("%d and %d bytes, %v", len(before), len(now), err)
	}
	if err := f.Close(); err != nil || f.IsOpen() || f.Close() != nil {
		t.Error(err)
	}
	if err := (&File{Name: "test-log", Path: t.TempDir()}).Open(); err == nil || !strings.HasPrefix(err.Error(), "test-log: ") {
		t.Error(err)
	}
}
