package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"limitdb/cmd/limitdb/cli"
)

func TestMistypedSubcommand(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"chekc data", `unknown subcommand "chekc": did you mean "check"?`},
		{"pign", `unknown subcommand "pign": did you mean "ping"?`},
		{"Check data", `unknown subcommand "Check": did you mean "check"?`},
		{"simulat", `unknown subcommand "simulat": did you mean "simulate"?`},
		{"frobnicate", `there is no subcommand and no file named "frobnicate"`},
		{"rules chekc", `unknown subcommand "chekc": the usage is limitdb rules check|explain|test|import`},
		{"check", "wrong number of arguments: the usage is limitdb check DIR"},
		{"export one", "wrong number of arguments: the usage is limitdb export DIR... DIR2"},
		{"import", "an option is missing: the usage is limitdb import --from redis://host:port/db --to redis://host:port"},
		{"help nosuch", `limitdb has no subcommand "nosuch": see limitdb --help`},
		{"help chekc", `unknown subcommand "chekc": did you mean "check"?`},
		{"help rules chekc", `unknown subcommand "chekc": did you mean "check"?`},
		{"help ping nosuch", `limitdb ping has no subcommand "nosuch": see limitdb ping --help`},
		{"rules import file", "an option is missing: the usage is limitdb rules import --from"},
	} {
		err := run(strings.Fields(c.args))
		var code cli.ExitCode
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &code) || code != 2 {
			t.Errorf("limitdb %s: %v, want %s and exit status 2", c.args, err, c.want)
		}
	}
	// If a file of that name exists, it is a configuration. A path is a file that does not exist.
	if err := os.WriteFile("chekc", []byte("nonsense 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"chekc":         "chekc:1: unknown directive",
		"limitdb.conf":  "limitdb.conf: no such file or directory",
		"./nowhere.txt": "./nowhere.txt: no such file or directory",
	} {
		if err := run([]string{args}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("limitdb %s: %v, want %s", args, err, want)
		}
	}
}

// A folder without data is not corrupt: it has no data.
func TestCheckFolderWithoutData(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "none")} {
		_, err := runCheck(d)
		var code cli.ExitCode
		if err == nil || !strings.Contains(err.Error(), "has no data of limitdb") && !strings.Contains(err.Error(), "no such file or directory") {
			t.Errorf("check %s: %v", d, err)
		}
		if errors.As(err, &code) && code == cli.ExitCorrupt {
			t.Errorf("check %s: exit status %d: %v", d, code, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("check has left something behind: %v, %v", left, err)
	}
}
