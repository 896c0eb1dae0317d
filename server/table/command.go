package table

import (
	"bytes"
	"strings"

	"limitdb/internal/glob"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

const errNoKeys = "ERR The command has no key arguments"

// Rows returns COMMAND, which describes the table to clients. redis-cli asks for DOCS, for its hints; cluster clients ask
// for the rows.
func (t *Table) Rows() []row {
	sub := handler.Rows[call]("server", "O(n) for n commands", spec.Loading|spec.Stale|spec.Conn)
	names := spec.Optional(spec.Several(spec.Text("command-name")))
	whole := []spec.Argument{spec.Text("command"), spec.Optional(spec.Several(spec.Text("arg")))}
	filter := spec.Argument{Name: "filterby", Kind: "oneof", Token: "FILTERBY", Optional: true, Args: []spec.Argument{
		{Name: "module-name", Kind: "string", Token: "MODULE"},
		{Name: "category", Kind: "string", Token: "ACLCAT"},
		{Name: "pattern", Kind: "pattern", Token: "PATTERN"},
	}}
	all := sub("COMMAND", -1, 0, "Describes all commands.", t.all)
	all.Rows = []row{
		sub("COUNT", 2, 0, "Counts the commands.", func(c *call) { c.Int(int64(len(t.ByName))) }).Takes("O(1)"),
		sub("DOCS", -2, 0, "Returns documentation of commands; of all, if none is named.", t.docs, names),
		sub("GETKEYS", -3, 0, "Returns the keys in a command.", t.getKeys, whole...).Takes("O(n) for n arguments"),
		sub("GETKEYSANDFLAGS", -3, 0, "Returns the keys in a command, and what it does with them.", t.getKeysAndFlags, whole...).Takes("O(n) for n arguments"),
		sub("INFO", -2, 0, "Describes commands; all, if none is named.", t.info, names),
		sub("LIST", -2, 0, "Lists the names of commands.", t.list, filter),
		sub("HELP", 2, 0, "Lists the subcommands.", nil).Takes("O(1)"),
	}
	return []row{all}
}

// Help lists the subcommands of the container that was called.
func (t *Table) Help(c *call) {
	cmd := t.Find(c.Args[0])
	lines := []string{cmd.Name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for _, sub := range cmd.Subs {
		syntax := sub.AppendSyntax(nil)
		lines = append(lines, string(syntax[len(cmd.Name)+1:]), "    "+sub.Summary)
	}
	c.Array(len(lines))
	for _, l := range lines {
		c.Simple(l)
	}
}

// Categories is ACL CAT: it replies with the categories of commands, or with the commands of a category.
func (t *Table) Categories(c *call) {
	if len(c.Args) > 3 {
		c.Fail(spec.ErrSyntax)
		return
	}
	if len(c.Args) == 3 {
		names := t.Names(func(cmd *spec.Command) bool { return cmd.InCategory(c.Args[2]) })
		if len(names) == 0 {
			c.Fail("ERR Unknown category '" + resp.Excerpt(c.Args[2]) + "'")
			return
		}
		c.Texts(names)
		return
	}
	var list []string
	seen := make(map[string]bool)
	for _, cmd := range t.All {
		for _, cat := range cmd.Categories() {
			if !seen[cat] {
				seen[cat] = true
				list = append(list, strings.TrimPrefix(cat, "@"))
			}
		}
	}
	c.Texts(list)
}

func (t *Table) all(c *call) {
	if len(c.Args) > 1 {
		c.Fail(t.Find(c.Args[0]).NoSubcommand(c.Args[1]))
		return
	}
	t.rows(c)
}

func (t *Table) rows(c *call) {
	all := t.ByName
	c.Array(len(all))
	c.EachStep(len(all), 1, nil, func(i int) { all[i].AppendRow(&c.Reply) }, nil)
}

func (t *Table) info(c *call) {
	if len(c.Args) == 2 {
		t.rows(c)
		return
	}
	found := make([]*spec.Command, 0, len(c.Args)-2)
	for _, name := range c.Args[2:] {
		found = append(found, t.FindFull(name))
	}
	c.Array(len(found))
	c.EachStep(len(found), 1, nil, func(i int) {
		if found[i] == nil {
			c.Null()
			return
		}
		found[i].AppendRow(&c.Reply)
	}, nil)
}

// docs replies to COMMAND DOCS with a map for each command.
func (t *Table) docs(c *call) {
	list := t.ByName
	if len(c.Args) > 2 {
		list = nil
		seen := make(map[*spec.Command]bool)
		for _, name := range c.Args[2:] {
			if cmd := t.FindFull(name); cmd != nil && !seen[cmd] {
				seen[cmd] = true
				list = append(list, cmd)
			}
		}
	}
	c.Map(len(list))
	c.EachStep(len(list), 1, nil, func(i int) {
		c.Text(list[i].Full)
		list[i].AppendDoc(&c.Reply)
	}, nil)
}

func (t *Table) list(c *call) {
	keep := func(*spec.Command) bool { return true }
	switch {
	case len(c.Args) == 2:
	case len(c.Args) == 5 && resp.EqualFold(c.Args[2], "FILTERBY"):
		switch {
		case resp.EqualFold(c.Args[3], "MODULE"):
			keep = func(*spec.Command) bool { return false }
		case resp.EqualFold(c.Args[3], "ACLCAT"):
			keep = func(cmd *spec.Command) bool { return cmd.InCategory(c.Args[4]) }
		case resp.EqualFold(c.Args[3], "PATTERN"):
			pattern, ok := glob.Compile(bytes.ToLower(c.Args[4]))
			if !ok {
				c.Fail(spec.ErrPatternTooLong)
				return
			}
			keep = func(cmd *spec.Command) bool { return pattern.Match([]byte(cmd.Full)) }
		default:
			c.Fail(spec.ErrSyntax)
			return
		}
	default:
		c.Fail(spec.ErrSyntax)
		return
	}
	c.Texts(t.Names(keep))
}

func (t *Table) getKeys(c *call) {
	cmd, positions := t.keysOf(c, c.Args[2:])
	if cmd == nil {
		return
	}
	c.Array(len(positions))
	for _, i := range positions {
		c.Bulk(c.Args[2+i])
	}
}

func (t *Table) getKeysAndFlags(c *call) {
	cmd, positions := t.keysOf(c, c.Args[2:])
	if cmd == nil {
		return
	}
	c.Array(len(positions))
	for _, i := range positions {
		c.Array(2)
		c.Bulk(c.Args[2+i])
		cmd.AppendKeyFlags(&c.Reply, c.Args[2:], i)
	}
}

// keysOf returns the command that line calls and the positions of its keys. If there are none,
// it replies with an error and returns nil.
func (t *Table) keysOf(c *call, line [][]byte) (*spec.Command, []int) {
	cmd := t.Find(line[0])
	if cmd != nil && len(cmd.Subs) > 0 && len(line) > 1 {
		cmd = cmd.Sub(line[1])
	}
	switch {
	case cmd == nil:
		c.Fail("ERR Invalid command specified")
		return nil, nil
	case !cmd.HasKeys():
		c.Fail(errNoKeys)
		return nil, nil
	case !cmd.ArityOK(len(line)):
		c.Fail("ERR Invalid number of arguments specified for command")
		return nil, nil
	}
	var positions []int
	cmd.Keys(line, func(i int) { positions = append(positions, i) })
	if len(positions) == 0 && cmd.NumKeys > 0 {
		c.Fail("ERR Invalid arguments specified for command")
		return nil, nil
	}
	if len(positions) == 0 {
		c.Fail(errNoKeys)
		return nil, nil
	}
	return cmd, positions
}

// FindFull finds a command by its full name, in any case: get, config|get.
func (t *Table) FindFull(name []byte) *spec.Command {
	parent, sub, nested := bytes.Cut(name, []byte("|"))
	c := t.Find(parent)
	if c != nil && nested {
		c = c.Sub(sub)
	}
	return c
}

// Names returns the full names of the commands and subcommands for which keep returns true,
// sorted by name.
func (t *Table) Names(keep func(*spec.Command) bool) []string {
	out := []string{}
	for _, c := range t.ByName {
		if keep(c) {
			out = append(out, c.Full)
		}
		for _, sub := range c.Subs {
			if keep(sub) {
				out = append(out, sub.Full)
			}
		}
	}
	return out
}
