package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"limitdb/cmd/limitdb/cli"
)

func runCheck(args ...string) (out string, err error) {
	c := checkCommand()
	var b bytes.Buffer
	c.SetOut(&b)
	c.SetErr(&b)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.Execute()
	return b.String(), err
}

func TestCheck(t *testing.T) {
	golden := filepath.Join("..", "..", "persistence", "testdata", "format1")
	out, err := runCheck(golden)
	if err != nil || !strings.Contains(out, "all is well, after a clean stop") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = runCheck("--dump", golden)
	if err != nil || strings.Count(out, `{"file":`) != 14 {
		t.Errorf("%v: %s", err, out)
	}

	dir := filepath.Join(t.TempDir(), "bad")
	if err := os.CopyFS(dir, os.DirFS(golden)); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log-00000002")
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	copied := dir + "-copy"
	out, err = runCheck("--repair", copied, dir)
	var code cli.ExitCode
	if err != nil || !strings.Contains(out, log+" at offset 64: ") {
		t.Errorf("a good repair: %v: %s", err, out)
	}
	out, err = runCheck(dir)
	if !errors.As(err, &code) || code != cli.ExitCorrupt || !strings.Contains(out, log+" at offset 64: ") {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Contains(err.Error(), "exit status") {
		t.Errorf("the message is %q", err)
	}
	out, err = runCheck(copied)
	if err != nil || !strings.Contains(out, "all is well") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := runCheck(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there is well")
	}
}
