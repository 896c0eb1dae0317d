package backups

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
)

func file(name, text string) File {
	return File{Name: name, Bytes: int64(len(text)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

// An archive gives the files again. Each single changed bit of it, and each end cut off, is found, or changes nothing that is unpacked.
func TestArchive(t *testing.T) {
	var b bytes.Buffer
	if err := WriteArchive(&b, []File{file("MANIFEST", "one"), file("raft/log/1.log", strings.Repeat("two", 300))}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	if err := VerifyArchive(bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	same := func(dir string) bool {
		one, _ := os.ReadFile(filepath.Join(dir, "MANIFEST"))
		two, _ := os.ReadFile(filepath.Join(dir, "raft", "log", "1.log"))
		files, err := List(dir)
		return err == nil && len(files) == 2 && string(one) == "one" && string(two) == strings.Repeat("two", 300)
	}
	tmp := t.TempDir()
	unpack := func(b []byte) (string, error) {
		dir := filepath.Join(tmp, "d")
		_ = os.RemoveAll(dir)
		return dir, Unpack(bytes.NewReader(b), dir)
	}
	if dir, err := unpack(whole); err != nil || !same(dir) || Verify(dir) != nil {
		t.Fatalf("%v, %v", err, Verify(dir))
	}
	for at := 0; at < len(whole); at += 61 {
		changed := bytes.Clone(whole)
		changed[at] ^= 1 << (at / 61 % 8)
		if dir, err := unpack(changed); err == nil && !same(dir) {
			t.Errorf("a bit of byte %d was changed, and nobody noticed", at)
		}
	}
	for end := 0; end < len(whole)-2048; end += 401 {
		if dir, err := unpack(whole[:end]); err == nil && !same(dir) {
			t.Errorf("after a cut at %d", end)
		}
	}
}

// A backup outlives a crash as soon as it is written: all files, their directories and their sums.
func TestDirectoryOutlivesCrashes(t *testing.T) {
	files := func() []File {
		return []File{file("MANIFEST", "one"), file("raft/1/log/1.log", strings.Repeat("two", 300))}
	}
	for seed := range uint64(50) {
		m := disktest.New("/b")
		if err := writeDir(m, "/b/x", files()); err != nil {
			t.Fatal(err)
		}
		if err := m.SyncDir("/b"); err != nil {
			t.Fatal(err)
		}
		m = m.Crash(rand.New(rand.NewPCG(seed, 1)))
		sums := ""
		for _, f := range files() {
			line, err := copyFile(io.Discard, &f)
			if err != nil {
				t.Fatal(err)
			}
			sums += line
		}
		for _, f := range append(files(), file(SumsFile, sums)) {
			want, _ := f.Open()
			text, _ := io.ReadAll(want)
			if b, err := disk.ReadFile(m, "/b/x/"+f.Name, disk.Small); err != nil || !bytes.Equal(b, text) {
				t.Fatalf("%s: %q, %v", f.Name, b, err)
			}
		}
	}
}

// An archive that has a file twice is refused.
func TestFileTwice(t *testing.T) {
	for _, files := range [][]File{{file("a", "x"), file("a", "y")}, {file("a", "x"), file("a/b", "y")}, {file("a/b", "x"), file("a", "y")}} {
		if err := WriteDir(filepath.Join(t.TempDir(), "d"), files); err == nil {
			t.Errorf("%s and %s", files[0].Name, files[1].Name)
		}
	}
}

// Names that lead out of the directory are refused.
func TestNames(t *testing.T) {
	for _, name := range []string{"", "../x", "/x", "a/../../x", "a//b", "./a", `a\b`, "a\nb", SumsFile, "a/"} {
		if err := WriteArchive(io.Discard, []File{file(name, "x")}, time.Unix(1, 0)); !errors.Is(err, ErrBackup) {
			t.Errorf("%q in an archive: %v", name, err)
		}
		if err := WriteDir(filepath.Join(t.TempDir(), "d"), []File{file(name, "x")}); !errors.Is(err, ErrBackup) {
			t.Errorf("%q in a directory: %v", name, err)
		}
	}
}

// Verify finds a file that was changed, is missing or is one too many.
func TestVerify(t *testing.T) {
	for what, change := range map[string]func(dir string) error{
		"changed": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("y"), 0o600) },
		"missing": func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"more":    func(dir string) error { return os.WriteFile(filepath.Join(dir, "c"), []byte("x"), 0o600) },
		"no sums": func(dir string) error { return os.Remove(filepath.Join(dir, SumsFile)) },
		"a link":  func(dir string) error { return os.Symlink("a", filepath.Join(dir, "l")) },
	} {
		dir := filepath.Join(t.TempDir(), "d")
		if err := WriteDir(dir, []File{file("a", "x"), file("b/a", "z")}); err != nil {
			t.Fatal(err)
		}
		if err := Verify(dir); err != nil {
			t.Fatal(err)
		}
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if err := Verify(dir); !errors.Is(err, ErrBackup) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
