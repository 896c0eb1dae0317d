// Package plant shows that tests find bugs: it puts known bugs into the code, one at a time, and checks that
// a test fails for each. Only tests use it.
package plant

import (
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
	// File is relative to the directory of the calling test.
	File string
	// From must occur exactly once in the file, inside a function; To replaces it.
	From, To string
	// Test is in the same directory as File or, with the prefix "./", in that of the calling test.
	Test string
}

// dir returns the directory of the test.
func (b *Bug) dir() string {
	if strings.HasPrefix(b.Test, here) {
		return "."
	}
	return filepath.Dir(b.File)
}

// here is the prefix of the name of a test that is in the directory of the calling test.
const here = "./"

func (b *Bug) test() string { return strings.TrimPrefix(b.Test, here) }

// Check runs the test of each bug with the bug in place. It fails if the test passes.
//
// All bugs of a directory are in one binary, and the environment chooses among them: linking a binary takes
// longer than most of these tests.
func Check(t *testing.T, bugs []Bug) {
	binaries := map[string]string{} // by directory
	for _, b := range bugs {
		if dir := b.dir(); binaries[dir] == "" {
			binaries[dir] = build(t, dir, bugs)
		}
	}
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			out, err := b.run(t.Context(), binaries[b.dir()])
			if err == nil {
				t.Fatalf("%s does not find it", b.Test)
			}
			if !strings.Contains(out, "--- FAIL: "+b.test()) {
				t.Fatalf("%s did not even run: %s", b.Test, out)
			}
		})
	}
}

// build builds the tests in dir with all bugs that they are to find, and returns the binary's path.
func build(t *testing.T, dir string, bugs []Bug) string {
	temp := t.TempDir()
	replace := map[string]string{}
	add := func(name string, code []byte) {
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replace[path] = filepath.Join(temp, strings.ReplaceAll(name, string(filepath.Separator), "_"))
		if err := os.WriteFile(replace[path], code, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	byFile := map[string][]Bug{}
	for _, b := range bugs {
		if b.dir() == dir {
			byFile[b.File] = append(byFile[b.File], b)
		}
	}
	for file, bugs := range byFile {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		planted, name, err := plantAll(code, bugs)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		add(file, planted)
		add(filepath.Join(filepath.Dir(file), "plant_chosen.go"), []byte("package "+name+"\n\nimport \"os\"\n\nvar "+chosen+" = os.Getenv(\""+environ+"\")\n"))
	}
	list := filepath.Join(temp, "overlay.json")
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(temp, "planted.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", binary, "./"+dir).CombinedOutput()
	if err != nil {
		t.Fatalf("building %s with its bugs: %v\n%s", dir, err, out)
	}
	return binary
}

// run runs the bug's test with the bug.
func (b *Bug) run(ctx context.Context, binary string) (out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run=^"+b.test()+"$", "-test.timeout=2m")
	cmd.Dir = b.dir()
	// A random test draws more than usual, so that it does not depend on luck whether it meets the bug. Any failing example
	// will do: none is made smaller, and none is kept for later runs.
	cmd.Env = append(os.Environ(), environ+"="+b.Name, "RAPID_CHECKS=2000", "RAPID_SHRINKTIME=0s", "RAPID_NOFAILFILE=true")
	text, err := cmd.CombinedOutput()
	return string(text), err
}
