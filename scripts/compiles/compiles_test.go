package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module sample\n\ngo 1.26\n",
		"sample.go":      "package sample\n\nvar Pause = pause\n",
		"pause_linux.go": "package sample\n\nimport \"syscall\"\n\nvar pause = syscall.Pause\n",
		"pause_other.go": "//go:build !linux\n\npackage sample\n\nimport \"syscall\"\n\nvar pause = syscall.Pause\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct{ platform, want string }{
		{"linux/amd64", ""},
		{"darwin/arm64", "undefined: syscall.Pause"},
		{"plan10/amd64", "plan10"},
		{"linux", "linux is not a platform such as darwin/arm64"},
	} {
		got := ""
		if err := check(c.platform, "./..."); err != nil {
			got = err.Error()
		}
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.platform, got, c.want)
		}
	}
}
