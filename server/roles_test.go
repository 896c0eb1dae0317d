package server

import (
	"os"
	"slices"
	"strings"
	"testing"

	"limitdb/server/spec"
	"limitdb/server/users"
)

const (
	aclFile  = "../docs/acl.md"
	aclTable = "\n## Every command\n"
)

// roles returns the rights of the roles that docs/acl.md describes, by their lines there.
func roles(t *testing.T, page string) (names []string, all []*users.Rights) {
	t.Helper()
	for line := range strings.Lines(page) {
		_, rule, ok := strings.Cut(line, "`ACL SETUSER ")
		if !ok || !strings.HasPrefix(line, "| ") || !strings.Contains(rule, "` |") {
			continue
		}
		rule, _, _ = strings.Cut(rule, "`")
		words := strings.Fields(strings.ReplaceAll(rule, `\|`, "|"))
		r, err := users.Reset(words[0], 1).With(words[1:], allCommands())
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		names, all = append(names, words[0]), append(all, r)
	}
	return names, all
}

// TestGeneratedRoles writes the table of every command and role.
func TestGeneratedRoles(t *testing.T) {
	text, err := os.ReadFile(aclFile)
	if err != nil {
		t.Fatal(err)
	}
	head, old, ok := strings.Cut(string(text), aclTable)
	if !ok {
		t.Fatalf("%s has no heading %q", aclFile, aclTable)
	}
	intro, _, _ := strings.Cut(strings.TrimSpace(old), "\n\n")
	names, all := roles(t, head)
	if !slices.Equal(names, []string{"app", "operator", "monitor"}) {
		t.Fatal(names)
	}
	var b strings.Builder
	b.WriteString(head + aclTable + "\n" + intro + "\n\n| command | " + strings.Join(names, " | ") + " |\n|---|---|---|---|\n")
	for _, c := range allCommands().ByName {
		row := func(c *spec.Command) {
			b.WriteString("| `" + strings.ReplaceAll(strings.ToUpper(c.Full), "|", " ") + "` |")
			for _, r := range all {
				mark := " · |"
				if r.MayRun(c) && (c.Flags&spec.AllKeys == 0 || r.Check(c, [][]byte{nil}).Reason == users.Allowed) {
					mark = " yes |"
				}
				b.WriteString(mark)
			}
			b.WriteString("\n")
		}
		if len(c.Subs) == 0 || c.Name == "COMMAND" {
			row(c)
		}
		for _, sub := range c.Subs {
			if sub.Name != "HELP" {
				row(sub)
			}
		}
	}
	if *update {
		if err := os.WriteFile(aclFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != string(text) {
		t.Errorf("%s differs from the command table: run scripts/docs", aclFile)
	}
}

// What the roles are for, whatever commands there will be.
func TestRoles(t *testing.T) {
	text, err := os.ReadFile(aclFile)
	if err != nil {
		t.Fatal(err)
	}
	_, all := roles(t, string(text))
	app, operator, monitor := all[0], all[1], all[2]
	for _, c := range allCommands().All {
		harm := c.Flags&(spec.Admin|spec.Dangerous) != 0
		if app.MayRun(c) && (harm || c.Flags&(spec.Write|spec.Readonly) != 0 && c.Flags&spec.Decides == 0) {
			t.Errorf("app may run %s", c.Full)
		}
		if monitor.MayRun(c) && c.Flags&spec.Write != 0 {
			t.Errorf("monitor may run %s", c.Full)
		}
		if slices.Contains([]string{"flushall", "flushdb", "shutdown", "config|set", "acl|setuser", "acl|deluser", "debug|sleep", "raft|server"}, c.Full) && (app.MayRun(c) || operator.MayRun(c) || monitor.MayRun(c)) {
			t.Errorf("a role may run %s", c.Full)
		}
		if c.Group == "rules" && !operator.MayRun(c) {
			t.Errorf("operator may not run %s", c.Full)
		}
	}
}
