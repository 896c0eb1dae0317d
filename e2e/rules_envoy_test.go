package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestEnvoyRulesDir reads the files of Envoy's rate limit service from a folder as Kubernetes makes it: links to files in a directory
// that another link names, which is replaced as a whole. A mistake leaves the old files in force.
func TestEnvoyRulesDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(n int, files map[string]string) {
		t.Helper()
		name := fmt.Sprint("..version", n)
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			put(t, filepath.Join(dir, name, file), text)
		}
		if err := os.Symlink(name, filepath.Join(dir, "..tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		for file := range files {
			if err := os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
		}
	}
	version(1, map[string]string{"a.yaml": "domain: a\n"})
	p := start(t, "--envoy-rules-dir", dir)
	has := func(what, want string) {
		t.Helper()
		eventually(t, what, func() bool {
			var names []string
			for _, v := range one(t, p.Addr, "RL.RULES", "LIST").Elems {
				names = append(names, v.Text)
			}
			return strings.Join(names, " ") == want
		})
	}
	has("the files are read at the start", "a")
	version(2, map[string]string{"a.yaml": "domain: a\n", "b.yaml": "domain: default/eg/http\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]\n"})
	has("a new file is read", "a default/eg/http")
	version(3, map[string]string{"a.yaml": "domain: c\n", "b.yaml": "domain: b\ndescriptors: [{key: k, rate_limit: {unit: our}}]\n"})
	eventually(t, "the mistake is logged", func() bool { return strings.Contains(p.Log(), "b.yaml: line 2, column 43: unit must be second") })
	has("the old files stay", "a default/eg/http")
	version(4, map[string]string{"a.yaml": "domain: c\n", "b.yaml": "domain: b\n"})
	has("the next files are read", "c b")
	put(t, filepath.Join(dir, "..version4", "b.yaml"), "domain: d\n") // not in the folder that is watched
	p.Signal(syscall.SIGHUP)
	has("SIGHUP has read it", "c d")
	p.Stop()

	put(t, filepath.Join(dir, "bad.yaml"), "domain: c\n")
	for _, args := range [][]string{{"--envoy-rules-dir", dir}, {"--check-config", "--envoy-rules-dir", dir}} {
		r := run(t, "", plainBinary(t), append(args, "--port", "0", "--http-port", "0", "--appendonly", "no")...)
		if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, `bad.yaml: the domain "c" is in a.yaml already`) {
			t.Errorf("%v: status %d, %s", args, r.Code, r.Stdout+r.Stderr)
		}
	}
}
