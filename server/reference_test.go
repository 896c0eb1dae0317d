package server

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scripts/docs sets it.
var update = flag.Bool("update", false, "write docs/commands.md")

const (
	referenceFile = "../docs/commands.md"
	notesFolder   = "../docs/commands"
	introNote     = "_intro"
)

// readNotes returns the files of docs/commands by their names without ".md".
func readNotes(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(notesFolder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	notes := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimSuffix(filepath.Base(file), ".md"); name != "README" {
			notes[name] = strings.TrimSpace(string(text))
		}
	}
	return notes
}

// noteName returns the name of the file in docs/commands for c: "rl.take", "client-tracking".
func (c *command) noteName() string { return strings.ReplaceAll(c.Full, "|", "-") }

func TestGeneratedCommandReference(t *testing.T) {
	got := appendReference(nil, readNotes(t))
	if *update {
		if err := os.WriteFile(referenceFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s differs from the command table and docs/commands: run scripts/docs", referenceFile)
	}
}

// Every file in docs/commands belongs to a command and is in the reference; every command of a limiter has a file.
func TestEveryNoteBelongsToACommand(t *testing.T) {
	notes := readNotes(t)
	page := string(appendReference(nil, notes))
	for name, text := range notes {
		if text == "" || !strings.Contains(page, text) {
			t.Errorf("docs/commands/%s.md is empty or belongs to no command", name)
		}
	}
	for _, c := range allCommands().rows {
		if c.Group == "limiter" && notes[c.noteName()] == "" {
			t.Errorf("%s has no docs/commands/%s.md", c.Full, c.noteName())
		}
	}
}

// Every link of the page leads to a heading of the page, and every command has one.
func TestCommandReferenceLinks(t *testing.T) {
	page := string(appendReference(nil, readNotes(t)))
	anchors := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		_, anchor, _ := strings.Cut(link("", m[1]), "(#")
		if anchors[anchor] {
			t.Errorf("two headings %q", m[1])
		}
		anchors[anchor] = true
	}
	links := regexp.MustCompile(`\(#([^)]*\))`).FindAllStringSubmatch(page, -1)
	for _, m := range links {
		if !anchors[m[1]] {
			t.Errorf("a link to %q, which is no heading", m[1])
		}
	}
	if n := len(allCommands().ByName); len(links) < n {
		t.Errorf("%d links for %d commands", len(links), n)
	}
}

// appendReference appends docs/commands.md: the command table in Markdown, with the notes of each command.
func appendReference(b []byte, notes map[string]string) []byte {
	t := allCommands()
	var groups []string
	members := make(map[string][]*command)
	for _, c := range t.rows {
		if c.Parent != nil {
			continue
		}
		if !slices.Contains(groups, c.Group) {
			groups = append(groups, c.Group)
		}
		members[c.Group] = append(members[c.Group], c)
	}

	b = append(b, notes[introNote]...)
	b = append(b, '\n')
	for _, g := range groups {
		b = append(b, "\n- "+link(groupTitle(g), groupTitle(g))+":"...)
		for i, c := range members[g] {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, " "+link("`"+c.Name+"`", c.Name)...)
		}
	}
	b = append(b, '\n')
	for _, g := range groups {
		b = append(b, "\n## "+groupTitle(g)+"\n"...)
		for _, c := range members[g] {
			b = c.appendReference(b, "###", notes)
			for i := range c.subs {
				if c.subs[i].Name != "HELP" {
					b = c.subs[i].appendReference(b, "####", notes)
				}
			}
		}
	}
	return b
}

// appendReference appends one command's part of the page.
func (c *command) appendReference(b []byte, heading string, notes map[string]string) []byte {
	name := c.Name
	if c.Parent != nil {
		name = c.Parent.Name + " " + c.Name
	}
	b = append(b, "\n"+heading+" "+name+"\n\n"...)
	b = append(b, "```\n"...)
	b = append(c.AppendSyntax(b), "\n```\n\n"...)
	b = append(b, c.Summary+"\n"...)
	if len(c.subs) > 0 && !c.runs() {
		return b
	}
	if note := notes[c.noteName()]; note != "" {
		b = append(b, "\n"+note+"\n"...)
	}
	about := []string{"Complexity: " + c.Complexity}
	if flags := c.Flags.Names(); len(flags) > 0 {
		about = append(about, "flags: "+strings.Join(flags, ", "))
	}
	about = append(about, "categories: "+strings.Join(c.Categories(), " "))
	return append(b, "\n"+strings.Join(about, " · ")+"\n"...)
}

// groupTitle is a group's heading.
func groupTitle(group string) string {
	switch group {
	case "limiter":
		return "Limits"
	case "generic":
		return "Keys of every kind"
	case "cluster":
		return "Cluster and replication"
	case "connection":
		return "Connections"
	case "pubsub":
		return "Publish and subscribe"
	case "string", "list", "set":
		return strings.ToUpper(group[:1]) + group[1:] + "s"
	case "hash":
		return "Hashes"
	case "sorted-set":
		return "Sorted sets"
	}
	return strings.ToUpper(group[:1]) + group[1:]
}

// link is a Markdown link to a heading of the same page: an anchor is the
// heading in lower case, blanks as dashes, other signs but the underscore left out.
func link(text, heading string) string {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(heading))
	return "[" + text + "](#" + anchor + ")"
}
