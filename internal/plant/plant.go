// Package plant shows that tests find bugs: it puts known bugs into the code, one at a time, and checks that
// a test fails for each. Only tests use it.
package plant

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Bug is a bug to put into the code, and the test that must find it.
type Bug struct {
	Name string
	// File is relative to the directory of the calling test. Test is in the same directory as File.
	File string
	// From must occur exactly once in the file; To replaces it.
	From, To string
	Test     string
}

// Check runs the test of each bug with the bug in place. It fails if the test passes, or if the file
// contributing does not name the bug.
func Check(t *testing.T, contributing string, bugs []Bug) {
	text, err := os.ReadFile(contributing)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			if !bytes.Contains(text, []byte("`"+b.Name+"`")) {
				t.Error("CONTRIBUTING.md does not name it")
			}
			out, err := b.run(t)
			if err == nil {
				t.Fatalf("%s does not find it", b.Test)
			}
			if !strings.Contains(out, "--- FAIL: "+b.Test) {
				t.Fatalf("%s did not even run: %s", b.Test, out)
			}
		})
	}
}

// run runs the test with the bug, using an overlay for one file.
func (b *Bug) run(t *testing.T) (string, error) {
	code, err := os.ReadFile(b.File)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(code, []byte(b.From)); n != 1 {
		t.Fatalf("%s has the place %d times", b.File, n)
	}
	dir := t.TempDir()
	bad := filepath.Join(dir, filepath.Base(b.File))
	if err := os.WriteFile(bad, bytes.Replace(code, []byte(b.From), []byte(b.To), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(b.File)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{here: bad}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "test", "-vet=off", "-ldflags=-s -w", "-timeout=2m", "-overlay", list, "-run", "^"+b.Test+"$", "./"+filepath.Dir(b.File)).CombinedOutput()
	return string(out), err
}
