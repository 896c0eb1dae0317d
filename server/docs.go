package server

import (
	"slices"
	"strings"
)

// docsHead stands above the reference of the commands.
const docsHead = `# Commands

This page comes from the server's own command table, the one behind ` + "`COMMAND DOCS`" + `;
` + "`go test ./server -run CommandReference -update`" + ` writes it anew.

In a syntax line CAPITALS are typed as they are, in any case. Small letters stand for a value, brackets for what may be left
out, a bar for a choice, ` + "`key [key ...]`" + ` for one or more. Names of commands are in any case, too. Each container of
subcommands also knows HELP.

Replies are the same in RESP2 and RESP3 but for the types that RESP3 adds: maps, sets, doubles, nulls, verbatim texts
and pushes; in RESP2 a map is an array of keys and values in turn.

An error begins with a word in capitals: ERR, or one that tells what to do, such as NOAUTH, WRONGPASS, NOPROTO,
WRONGTYPE; only ` + "`CL.THROTTLE`" + ` has redis-cell's own. After an error nothing has changed. A denial is no error.
`

// AppendCommandReference appends docs/commands.md: the command table for
// people, in Markdown.
func AppendCommandReference(b []byte) []byte {
	t := newTable()
	var groups []string
	members := make(map[string][]*command)
	for _, c := range t.all {
		if c.parent != nil {
			continue
		}
		if !slices.Contains(groups, c.group) {
			groups = append(groups, c.group)
		}
		members[c.group] = append(members[c.group], c)
	}

	b = append(b, docsHead...)
	for _, g := range groups {
		b = append(b, "\n- "+link(groupTitle(g), groupTitle(g))+":"...)
		for i, c := range members[g] {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, " "+link("`"+c.name+"`", c.name)...)
		}
	}
	b = append(b, '\n')
	for _, g := range groups {
		b = append(b, "\n## "+groupTitle(g)+"\n"...)
		for _, c := range members[g] {
			b = c.appendReference(b, "###")
			for i := range c.subs {
				if c.subs[i].name != "HELP" {
					b = c.subs[i].appendReference(b, "####")
				}
			}
		}
	}
	return b
}

// appendReference appends one command's part of the page.
func (c *command) appendReference(b []byte, heading string) []byte {
	name := c.name
	if c.parent != nil {
		name = c.parent.name + " " + c.name
	}
	b = append(b, "\n"+heading+" "+name+"\n\n"...)
	b = append(b, "```\n"...)
	b = append(c.appendSyntax(b), "\n```\n\n"...)
	b = append(b, c.summary+"\n"...)
	if len(c.subs) > 0 && c.run == nil {
		return b
	}
	if c.notes != "" {
		b = append(b, "\n"+strings.TrimSpace(c.notes)+"\n"...)
	}
	about := []string{"Complexity: " + c.complexity}
	if flags := c.flags.names(); len(flags) > 0 {
		about = append(about, "flags: "+strings.Join(flags, ", "))
	}
	about = append(about, "categories: "+strings.Join(c.categories(), " "))
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
	}
	return strings.ToUpper(group[:1]) + group[1:]
}

// link is a Markdown link to a heading of the same page: an anchor is the
// heading in lower case, blanks as dashes, other signs left out.
func link(text, heading string) string {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(heading))
	return "[" + text + "](#" + anchor + ")"
}
