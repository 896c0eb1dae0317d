// Package plant shows that tests find bugs: it puts known bugs into the code, one at a time, and checks that
// a test fails for each. Only tests use it.
package plant

import (
	"context"
	"debug/buildinfo"
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
	// From must occur exactly once in the file, inside a function; To replaces it.
	From, To string
	Test     string
}

// Check runs the test of each bug with the bug in place. It fails if the test passes.
//
// All bugs of a directory are in one binary, and the environment chooses among them: linking a binary takes
// longer than most of these tests.
func Check(t *testing.T, bugs []Bug) {
	binaries := map[string]string{} // by directory
	for _, b := range bugs {
		if dir := filepath.Dir(b.File); binaries[dir] == "" {
			binaries[dir] = build(t, dir, bugs)
		}
	}
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			out, err := b.run(t.Context(), binaries[filepath.Dir(b.File)])
			if err == nil {
				t.Fatalf("%s does not find it", b.Test)
			}
			if !strings.Contains(out, "--- FAIL: "+b.Test) {
				t.Fatalf("%s did not even run: %s", b.Test, out)
			}
		})
	}
}

// build builds the tests in dir with all bugs that are in its files, and returns the binary's path.
func build(t *testing.T, dir string, bugs []Bug) string {
	temp := t.TempDir()
	replace := map[string]string{}
	add := func(name string, code []byte) {
		here, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		replace[here] = filepath.Join(temp, name)
		if err := os.WriteFile(replace[here], code, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	byFile := map[string][]Bug{}
	for _, b := range bugs {
		if filepath.Dir(b.File) == dir {
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
		add(filepath.Base(file), planted)
		add("plant_chosen.go", []byte("package "+name+"\n\nimport \"os\"\n\nvar "+chosen+" = os.Getenv(\""+environ+"\")\n"))
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
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", err
	}
	args := []string{"-test.run=^" + b.Test + "$", "-test.timeout=2m"}
	for _, d := range info.Deps {
		if d.Path == "pgregory.net/rapid" { // any failing example will do
			args = append(args, "-rapid.shrinktime=0s", "-rapid.nofailfile")
		}
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = filepath.Dir(b.File)
	// A random test draws more than usual, so that it does not depend on luck whether it meets the bug.
	cmd.Env = append(os.Environ(), environ+"="+b.Name, "RAPID_CHECKS=2000")
	text, err := cmd.CombinedOutput()
	return string(text), err
}
