package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"limitdb/config"
)

// scripts/docs writes the files; so does go test ./cmd/limitdb -run Generated -update.
var update = flag.Bool("update", false, "write the manual pages and the completions of shells")

// current writes a file, or checks that its contents are current.
func current(t *testing.T, path string, want []byte) {
	t.Helper()
	path = filepath.Join("..", "..", "deploy", path)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the commands say (%v): scripts/docs", path, err)
	}
}

func TestGeneratedCompletions(t *testing.T) {
	for name, script := range map[string]func(*cobra.Command, *bytes.Buffer) error{
		"limitdb.bash": func(c *cobra.Command, b *bytes.Buffer) error { return c.GenBashCompletionV2(b, true) },
		"_limitdb":     func(c *cobra.Command, b *bytes.Buffer) error { return c.GenZshCompletion(b) },
		"limitdb.fish": func(c *cobra.Command, b *bytes.Buffer) error { return c.GenFishCompletion(b, true) },
	} {
		var b bytes.Buffer
		if err := script(commands(), &b); err != nil {
			t.Fatal(err)
		}
		current(t, "completions/"+name, b.Bytes())
	}
}

func TestGeneratedManual(t *testing.T) {
	current(t, "man/limitdb.1", commandsPage(commands()))
	registry, _ := config.New()
	current(t, "man/limitdb.conf.5", directivesPage(registry.Reference()))
}

// TestManualIsASCII keeps the pages readable in every locale, and checks that no line of text is taken for a request.
func TestManualIsASCII(t *testing.T) {
	registry, _ := config.New()
	for _, page := range [][]byte{commandsPage(commands()), directivesPage(registry.Reference())} {
		for line := range strings.Lines(string(page)) {
			if strings.ContainsFunc(line, func(r rune) bool { return r > 126 || r < 32 && r != '\n' }) {
				t.Errorf("not in ASCII: %q", line)
			}
			request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch request {
			case ".TH", ".SH", ".SS", ".TP", ".PP", ".EX", ".EE":
			default:
				if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
					t.Errorf("a line of text that is taken for a request: %q", line)
				}
			}
		}
	}
}

// roff writes manual pages.
type roff struct {
	bytes.Buffer
	begun bool // there is text below the last heading
}

// escape makes plain text safe in a page: in ASCII, with hyphens that can be copied, and no request.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "µ", `\(mc`, "–", `\(en`, "×", `\(mu`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func (r *roff) head(name string, section int, title string) {
	fmt.Fprintf(r, ".TH %s %d \"\" \"limitdb\" \"%s\"\n", strings.ToUpper(escape(name)), section, title)
}

func (r *roff) heading(macro, title string) {
	fmt.Fprintf(r, "%s %s\n", macro, escape(title))
	r.begun = false
}

func (r *roff) section(title string) { r.heading(".SH", title) }

// paragraph begins a paragraph.
func (r *roff) paragraph() {
	if r.begun {
		fmt.Fprintln(r, ".PP")
	}
	r.begun = true
}

// paragraphs writes text whose paragraphs have empty lines between them. An indented line stays as it is.
func (r *roff) paragraphs(text string) {
	for p := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(p, " ") {
			r.example(p)
		} else {
			r.paragraph()
			fmt.Fprintf(r, "%s\n", escape(p))
		}
	}
}

func (r *roff) example(text string) {
	r.paragraph()
	fmt.Fprintf(r, ".EX\n%s\n.EE\n", escape(text))
}

// item writes a term with its meaning. Both are plain text.
func (r *roff) item(term, text string) {
	r.begun = true
	fmt.Fprintf(r, ".TP\n\\fB%s\\fR\n%s\n", escape(term), escape(text))
}

func (r *roff) flags(all *pflag.FlagSet) {
	all.VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		if value != "" {
			term += " " + value
		}
		r.item(term, usage+byDefault(f))
	})
}

// byDefault says what a flag is if it is not given, unless that is nothing or the usage says so.
func byDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return ""
	}
	return " (default " + f.DefValue + ")"
}

// subcommands writes a part for each command below c.
func (r *roff) subcommands(c *cobra.Command) {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		r.heading(".SS", strings.TrimPrefix(sub.UseLine(), "limitdb "))
		r.paragraphs(sub.Short + ".")
		if sub.Long != "" {
			r.paragraphs(sub.Long)
		}
		r.flags(sub.LocalFlags())
		if sub.Example != "" {
			r.example(sub.Example)
		}
		r.subcommands(sub)
	}
}

// commandsPage returns limitdb(1).
func commandsPage(root *cobra.Command) []byte {
	var r roff
	r.head("limitdb", 1, "User Commands")
	r.section("NAME")
	fmt.Fprintf(&r, "limitdb \\- %s\n", escape(strings.ToLower(root.Short[:1])+root.Short[1:]))
	r.section("SYNOPSIS")
	fmt.Fprintf(&r, "\\fB%s\\fR\n.PP\n\\fBlimitdb\\fR \\fISUBCOMMAND\\fR ...\n", escape(root.UseLine()))
	r.section("DESCRIPTION")
	r.paragraphs(root.Long)
	r.flags(root.LocalFlags())
	r.example(root.Example)
	r.section("SUBCOMMANDS")
	r.subcommands(root)
	r.section("SIGNALS")
	r.item("SIGTERM, SIGINT", "Stop: answer what was read, sync the log, and exit with status 0. A second signal cuts clients off.")
	r.item("SIGHUP", "Open the log file again, and read passwords and certificates again.")
	r.section("EXIT STATUS")
	r.item("0", "The server was stopped, or the subcommand has done its work.")
	r.item("1", "An error, which standard error names in one line.")
	r.item("2", "A mistake on the command line of a subcommand.")
	r.item("65", "The data directory is damaged, or from a newer version. Starting again does not help.")
	r.section("ENVIRONMENT")
	r.item("LIMITDB_DIRECTIVE", "The value of a directive, with _ for -: LIMITDB_MAXCLIENTS=100. It overrides the configuration file, and the command line overrides it.")
	r.section("FILES")
	r.item("/etc/limitdb/limitdb.conf", "The configuration of the service, as packages install it.")
	r.item("/var/lib/limitdb", "The state of the service. Started by hand, the server keeps its state in ./limitdb-data.")
	r.section("SEE ALSO")
	fmt.Fprint(&r, "\\fBlimitdb.conf\\fR(5), \\fBredis\\-cli\\fR(1)\n")
	return r.Bytes()
}

// directivesPage returns limitdb.conf(5).
func directivesPage(all []config.Entry) []byte {
	var r roff
	r.head("limitdb.conf", 5, "File Formats")
	r.section("NAME")
	fmt.Fprint(&r, "limitdb.conf \\- configuration of the limitdb server\n")
	r.section("DESCRIPTION")
	r.paragraphs(`A line is a directive and its value: port 7000. Text behind # is a comment. A value with spaces stands in "quotes",
where \" \\ \n \r \t \x41 are known. Sizes are in bytes: 1k is 1000, 1kb is 1024, 1mb is 1024kb, 1gb is 1024mb. A line include PATH is replaced by the
lines of that file, or of the files that match a pattern.

The environment (LIMITDB_PORT=7000) overrides the file, and the command line (--port 7000) overrides both. CONFIG SET
changes the directives that are marked "while running". limitdb --check-config FILE reports whether a file is valid.`)
	group := ""
	for _, e := range all {
		if e.Group != group {
			group = e.Group
			r.section(strings.ToUpper(group))
		}
		var facts []string
		if e.Range != "" {
			facts = append(facts, e.Range)
		}
		facts = append(facts, "default "+e.Default)
		if e.Mutable {
			facts = append(facts, "while running")
		}
		r.item(e.Name, e.Doc+" ("+strings.Join(facts, "; ")+")")
	}
	r.section("SEE ALSO")
	fmt.Fprint(&r, "\\fBlimitdb\\fR(1)\n")
	return r.Bytes()
}
