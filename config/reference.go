package config

import (
	"fmt"
	"strings"
)

// Entry describes a directive for people.
type Entry struct {
	Name        string   // as in the file
	Environment string   // the environment variable
	Group       string   // the heading of its group
	Default     string   // as in the file; "" is quoted
	Range       string   // the allowed values, or "" for any text
	Values      []string // the allowed values, if they are a few words
	Doc         string   // one line
	Mutable     bool     // CONFIG SET may change it
	Secret      bool     // CONFIG GET does not show it
}

// Reference returns all directives in the order of their declaration. Directives of one group are together.
func (r *Registry) Reference() []Entry {
	all := make([]Entry, len(r.list))
	for i, d := range r.list {
		all[i] = Entry{
			Name:        d.name,
			Environment: envName(d.name),
			Group:       d.group,
			Default:     d.handle.spell(d.def),
			Range:       d.handle.limits(),
			Values:      words(d.handle),
			Doc:         d.doc,
			Mutable:     d.mutable,
			Secret:      d.secret,
		}
	}
	return all
}

// words returns the words that a directive takes, or nil if it takes others, too.
func words(h Handle) []string {
	switch h := h.(type) {
	case *Bool:
		return []string{"yes", "no"}
	case *Enum:
		return h.values
	}
	return nil
}

const exampleHead = `# limitdb's configuration: every directive, at its default.
#
#     limitdb /path/to/limitdb.conf
#
# A line is a directive and its value. Put a value with spaces in "quotes",
# where \" \\ \n \r \t \x41 are known. Sizes are in bytes: 1k is 1000, 1kb is
# 1024, 1mb is 1024kb, 1gb is 1024mb.
#
# The environment (LIMITDB_MAXCLIENTS=100) overrides this file, and the
# command line (--maxclients 100) overrides both. CONFIG SET changes the directives
# marked "while running"; CONFIG REWRITE then writes them here.
`

// AppendExample appends a configuration file that has every directive with its meaning and its default,
// commented out.
func (r *Registry) AppendExample(b []byte) []byte {
	b = append(b, exampleHead...)
	group := ""
	for _, e := range r.Reference() {
		if e.Group != group {
			group = e.Group
			b = append(b, "\n### "+group+"\n"...)
		}
		b = append(b, '\n')
		b = append(b, wrap(e.Doc, "# ", 78)...)
		var facts []string
		if e.Range != "" {
			facts = append(facts, e.Range)
		}
		if e.Mutable {
			facts = append(facts, "while running")
		}
		if len(facts) > 0 {
			b = append(b, "# ("+strings.Join(facts, "; ")+")\n"...)
		}
		b = append(b, "# "+e.Name+" "+e.Default+"\n"...)
	}
	return b
}

const markdownHead = `# Configuration

A directive's value comes from the first of these places that gives one:

1. on the command line: ` + "`limitdb [FILE] [--directive value …]`" + `, also ` + "`--directive=value`" + `
2. in the environment: ` + "`LIMITDB_MAXCLIENTS=100`" + ` for ` + "`maxclients`" + `, with ` + "`_`" + ` for ` + "`-`" + `
3. in the file: ` + "`maxclients 100`" + `, one directive a line, ` + "`#`" + ` before a comment, quotes as in ` + "`redis.conf`" + `
4. its default

A line ` + "`include path`" + ` in the file is replaced by the lines of that file, or of all files that match ` + "`conf.d/*.conf`" + `, in the order of their names.
A path is relative to the folder of the file that includes it. The lines of ` + "`save`" + ` in the file add up, and so do those of ` + "`user`" + `.

FILE ` + "`-`" + ` is the standard input. ` + "`limitdb --check-config`" + ` with the same arguments only checks them. After an unknown
directive or a value that is not allowed, the server does not start, and prints one line that names the file's line, the option or the
variable.

limitdb also reads a ` + "`redis.conf`" + `. It ignores directives that have no meaning here, with a line in the log that says what to do instead. It does not start with
directives that must not be ignored, such as ` + "`rename-command`" + ` or ` + "`replicaof`" + `.

Sizes are in bytes and take a unit: ` + "`1k`" + ` is 1000, ` + "`1kb`" + ` is 1024; likewise ` + "`m mb g gb`" + `.

While the server runs, ` + "`CONFIG GET`" + ` shows every directive, ` + "`CONFIG SET`" + ` changes those marked *running* (several at
once: all or none), and ` + "`CONFIG REWRITE`" + ` writes the current values to the file, where it keeps comments, order and
all lines that are still right.

limitdb never shows a password: ` + "`CONFIG GET`" + ` replies ` + "`(redacted)`" + ` if there is one. But every user of the machine can read a password on the command
line; the log warns about it. ` + "`requirepass-file`" + ` keeps the password out of the configuration file, too, and is reloaded on SIGHUP. ` + "`CONFIG REWRITE`" + ` writes no
password that comes from such a file, the environment or the command line.

limitdb ignores the variables that Kubernetes sets for a service called limitdb (` + "`LIMITDB_SERVICE_HOST`" + `, ` + "`LIMITDB_PORT=tcp://…`" + `). Any other
variable that begins with ` + "`LIMITDB_`" + ` and names no directive is an error.

`

// AppendMarkdown appends the page that documents all directives.
func (r *Registry) AppendMarkdown(b []byte) []byte {
	b = append(b, markdownHead...)
	group := ""
	for _, e := range r.Reference() {
		if e.Group != group {
			if group != "" {
				b = append(b, '\n')
			}
			group = e.Group
			b = append(b, "## "+group+"\n\n| directive | default | allowed | running | |\n|---|---|---|---|---|\n"...)
		}
		running := ""
		if e.Mutable {
			running = "yes"
		}
		b = fmt.Appendf(b, "| `%s` | `%s` | %s | %s | %s |\n", e.Name, e.Default, e.Range, running, strings.ReplaceAll(e.Doc, "|", `\|`))
	}
	return b
}

// wrap breaks text into lines of at most width bytes, each with prefix in front.
func wrap(text, prefix string, width int) string {
	var b strings.Builder
	line := prefix
	for _, word := range strings.Fields(text) {
		if line != prefix {
			if len(line)+1+len(word) > width {
				b.WriteString(line + "\n")
				line = prefix
			} else {
				line += " "
			}
		}
		line += word
	}
	return b.String() + line + "\n"
}
