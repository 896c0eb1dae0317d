package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files are read again once they have been the same for two looks: not between the certificate and its key, and once for each change.
func TestWatchedFiles(t *testing.T) {
	dir := t.TempDir()
	at := time.Unix(1_000_000, 0)
	write := func(path string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte("pem"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, path), at, at); err != nil {
			t.Fatal(err)
		}
	}
	// As Kubernetes mounts a secret: the names are links through a link to a folder, which is replaced.
	link := func(to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"1/crt", "1/key", "2/crt", "2/key"} {
		write(f)
	}
	link("1")
	files := watchFiles([]string{filepath.Join(dir, "data", "crt"), filepath.Join(dir, "data", "key"), ""})
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() {}, false},
		{func() { link("2") }, false},
		{func() {}, true},
		{func() {}, false},
		{func() { write("2/crt") }, false},
		{func() { write("2/key") }, false}, // the key came a moment later
		{func() {}, true},
		{func() { _ = os.Remove(filepath.Join(dir, "2/crt")) }, false},
		{func() {}, true}, // reading it says what is wrong
		{func() {}, false},
		{func() { write("2/crt") }, false},
		{func() {}, true},
	} {
		step.do()
		if got := files.changed(); got != step.want {
			t.Errorf("step %d: changed is %v", i, got)
		}
	}
}
