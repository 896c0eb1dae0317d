package server

import (
	"bytes"

	"limitdb/internal/glob"
	"limitdb/resp"
	"limitdb/server/spec"
)

// commandCommands are COMMAND and its subcommands, which describe the command table to clients.
// redis-cli asks for DOCS, for its hints; cluster clients ask for the rows.
func commandCommands() []command {
	sub := func(name string, arity int, complexity, summary string, run func(*call), args ...spec.Argument) command {
		return command{
			Command: spec.Command{
				Name: name, Arity: arity, Flags: spec.Loading | spec.Stale | spec.Conn, Group: "server",
				Complexity: complexity, Summary: summary, Args: args,
			},
			run: run,
		}
	}
	names := spec.Argument{Name: "command-name", Kind: "string", Optional: true, Multiple: true}
	whole := []spec.Argument{
		{Name: "command", Kind: "string"},
		{Name: "arg", Kind: "string", Optional: true, Multiple: true},
	}
	filter := spec.Argument{Name: "filterby", Kind: "oneof", Token: "FILTERBY", Optional: true, Args: []spec.Argument{
		{Name: "module-name", Kind: "string", Token: "MODULE"},
		{Name: "category", Kind: "string", Token: "ACLCAT"},
		{Name: "pattern", Kind: "pattern", Token: "PATTERN"},
	}}
	return []command{{
		Command: spec.Command{
			Name: "COMMAND", Arity: -1, Flags: spec.Loading | spec.Stale | spec.Conn, Group: "server",
			Complexity: "O(n) for n commands", Summary: "Describes all commands.",
		},
		run: (*call).commandAll,
		subs: []command{
			sub("COUNT", 2, "O(1)", "Counts the commands.", func(c *call) { c.Int(int64(len(c.srv.table.byName))) }),
			sub("DOCS", -2, "O(n) for n commands", "Returns documentation of commands; of all, if none is named.", (*call).commandDocs, names),
			sub("GETKEYS", -3, "O(n) for n arguments", "Returns the keys in a command.", (*call).commandGetKeys, whole...),
			sub("GETKEYSANDFLAGS", -3, "O(n) for n arguments", "Returns the keys in a command, and what it does with them.", (*call).commandGetKeysAndFlags, whole...),
			sub("INFO", -2, "O(n) for n commands", "Describes commands; all, if none is named.", (*call).commandInfo, names),
			sub("LIST", -2, "O(n) for n commands", "Lists the names of commands.", (*call).commandList, filter),
			sub("HELP", 2, "O(1)", "Lists the subcommands.", (*call).help),
		},
	}}
}

func (c *call) commandAll() {
	if len(c.Args) > 1 {
		c.Fail(c.srv.table.find(c.Args[0]).NoSubcommand(c.Args[1]))
		return
	}
	c.allRows()
}

func (c *call) allRows() {
	all := c.srv.table.byName
	c.Array(len(all))
	c.EachStep(len(all), 1, nil, func(i int) { all[i].AppendRow(&c.Reply) }, nil)
}

func (c *call) commandInfo() {
	if len(c.Args) == 2 {
		c.allRows()
		return
	}
	found := make([]*command, 0, len(c.Args)-2)
	for _, name := range c.Args[2:] {
		found = append(found, c.srv.table.findFull(name))
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

// commandDocs replies to COMMAND DOCS with a map for each command.
func (c *call) commandDocs() {
	list := c.srv.table.byName
	if len(c.Args) > 2 {
		list = nil
		seen := make(map[*command]bool)
		for _, name := range c.Args[2:] {
			if cmd := c.srv.table.findFull(name); cmd != nil && !seen[cmd] {
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

func (c *call) commandList() {
	keep := func(*command) bool { return true }
	switch {
	case len(c.Args) == 2:
	case len(c.Args) == 5 && resp.EqualFold(c.Args[2], "FILTERBY"):
		switch {
		case resp.EqualFold(c.Args[3], "MODULE"):
			keep = func(*command) bool { return false }
		case resp.EqualFold(c.Args[3], "ACLCAT"):
			keep = func(cmd *command) bool { return cmd.InCategory(c.Args[4]) }
		case resp.EqualFold(c.Args[3], "PATTERN"):
			pattern, ok := glob.Compile(bytes.ToLower(c.Args[4]))
			if !ok {
				c.Fail(spec.ErrPatternTooLong)
				return
			}
			keep = func(cmd *command) bool { return pattern.Match([]byte(cmd.Full)) }
		default:
			c.Fail(spec.ErrSyntax)
			return
		}
	default:
		c.Fail(spec.ErrSyntax)
		return
	}
	c.Texts(c.srv.table.names(keep))
}

func (c *call) commandGetKeys() {
	cmd, positions := c.keysOf(c.Args[2:])
	if cmd == nil {
		return
	}
	c.Array(len(positions))
	for _, i := range positions {
		c.Bulk(c.Args[2+i])
	}
}

func (c *call) commandGetKeysAndFlags() {
	cmd, positions := c.keysOf(c.Args[2:])
	if cmd == nil {
		return
	}
	c.Array(len(positions))
	for _, i := range positions {
		c.Array(2)
		c.Bulk(c.Args[2+i])
		cmd.AppendKeyFlags(&c.Reply)
	}
}

// keysOf returns the command that line calls and the positions of its keys. If there are none,
// it replies with an error and returns nil.
func (c *call) keysOf(line [][]byte) (*command, []int) {
	cmd := c.srv.table.find(line[0])
	if cmd != nil && len(cmd.subs) > 0 && len(line) > 1 {
		cmd = cmd.sub(line[1])
	}
	switch {
	case cmd == nil:
		c.Fail(errNotACommand)
		return nil, nil
	case !cmd.HasKeys():
		c.Fail(errNoKeyArguments)
		return nil, nil
	case !cmd.ArityOK(len(line)):
		c.Fail(errCommandArgs)
		return nil, nil
	}
	var positions []int
	cmd.Keys(line, func(i int) { positions = append(positions, i) })
	if len(positions) == 0 && cmd.NumKeys > 0 {
		c.Fail(errNoKeysHere)
		return nil, nil
	}
	if len(positions) == 0 {
		c.Fail(errNoKeyArguments)
		return nil, nil
	}
	return cmd, positions
}

// findFull finds a command by its full name, in any case: get, config|get.
func (t *table) findFull(name []byte) *command {
	parent, sub, nested := bytes.Cut(name, []byte("|"))
	c := t.find(parent)
	if c != nil && nested {
		c = c.sub(sub)
	}
	return c
}

// names returns the full names of the commands and subcommands for which keep returns true,
// sorted by name.
func (t *table) names(keep func(*command) bool) []string {
	out := []string{}
	for _, c := range t.byName {
		if keep(c) {
			out = append(out, c.Full)
		}
		for i := range c.subs {
			if keep(&c.subs[i]) {
				out = append(out, c.subs[i].Full)
			}
		}
	}
	return out
}
