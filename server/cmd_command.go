package server

import (
	"bytes"
	"strings"

	"limitdb/internal/glob"
)

// commandCommands are COMMAND and its subcommands, which describe the command table to clients.
// redis-cli asks for DOCS, for its hints; cluster clients ask for the rows.
func commandCommands() []command {
	sub := func(name string, arity int, complexity, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: flagLoading | flagStale | flagConn, group: "server", since: "1.0.0",
			complexity: complexity, summary: summary, args: args, run: run,
		}
	}
	names := argument{name: "command-name", kind: "string", optional: true, multiple: true}
	whole := []argument{
		{name: "command", kind: "string"},
		{name: "arg", kind: "string", optional: true, multiple: true},
	}
	filter := argument{name: "filterby", kind: "oneof", token: "FILTERBY", optional: true, args: []argument{
		{name: "module-name", kind: "string", token: "MODULE"},
		{name: "category", kind: "string", token: "ACLCAT"},
		{name: "pattern", kind: "pattern", token: "PATTERN"},
	}}
	return []command{{
		name: "COMMAND", arity: -1, flags: flagLoading | flagStale | flagConn, group: "server", since: "1.0.0",
		complexity: "O(n) for n commands", summary: "Describes all commands.", run: (*call).commandAll,
		subs: []command{
			sub("COUNT", 2, "O(1)", "Counts the commands.", func(c *call) { c.int(int64(len(c.srv.table.byName))) }),
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
	if len(c.args) > 1 {
		c.fail(c.srv.table.find(c.args[0]).noSubcommand(c.args[1]))
		return
	}
	c.allRows()
}

func (c *call) allRows() {
	all := c.srv.table.byName
	c.array(len(all))
	c.eachStep(len(all), 1, nil, func(i int) { c.commandRow(all[i]) }, nil)
}

func (c *call) commandInfo() {
	if len(c.args) == 2 {
		c.allRows()
		return
	}
	found := make([]*command, 0, len(c.args)-2)
	for _, name := range c.args[2:] {
		found = append(found, c.srv.table.findFull(name))
	}
	c.array(len(found))
	c.eachStep(len(found), 1, nil, func(i int) {
		if found[i] == nil {
			c.null()
			return
		}
		c.commandRow(found[i])
	}, nil)
}

// commandRow replies with the ten fields with which Redis 7 describes a command.
func (c *call) commandRow(cmd *command) {
	c.array(10)
	c.text(cmd.fullName())
	c.int(int64(cmd.arity))
	c.simpleSet(cmd.flags.names())
	c.int(int64(cmd.firstKey))
	c.int(int64(cmd.lastKey))
	c.int(int64(cmd.step))
	c.simpleSet(cmd.categories())
	c.set(0) // tips
	c.keySpecs(cmd)
	c.set(len(cmd.subs))
	for i := range cmd.subs {
		c.commandRow(&cmd.subs[i])
	}
}

// simpleSet replies with a set of simple strings.
func (c *call) simpleSet(words []string) {
	c.set(len(words))
	for _, w := range words {
		c.simple(w)
	}
}

// keySpecs replies with the positions of the keys and what the command does with them.
func (c *call) keySpecs(cmd *command) {
	if !cmd.hasKeys() {
		c.set(0)
		return
	}
	c.set(1)
	c.mapOf(3)
	c.text("flags")
	c.simpleSet(cmd.keySpecFlags())
	c.text("begin_search")
	c.mapOf(2)
	c.text("type")
	c.text("index")
	c.text("spec")
	c.mapOf(1)
	c.text("index")
	c.int(int64(cmd.firstKey + cmd.numKeys)) // one of them is 0
	c.text("find_keys")
	c.mapOf(2)
	c.text("type")
	if cmd.numKeys > 0 {
		c.text("keynum")
		c.text("spec")
		c.integers([]string{"keynumidx", "firstkey", "keystep"}, 0, 1, 1)
		return
	}
	last := cmd.lastKey
	if last > 0 {
		last -= cmd.firstKey // counted from the first key
	}
	c.text("range")
	c.text("spec")
	c.integers([]string{"lastkey", "keystep", "limit"}, last, cmd.step, 0)
}

// integers replies with a map of integers.
func (c *call) integers(names []string, values ...int) {
	c.mapOf(len(names))
	for i, name := range names {
		c.text(name)
		c.int(int64(values[i]))
	}
}

func (c *call) commandList() {
	keep := func(*command) bool { return true }
	switch {
	case len(c.args) == 2:
	case len(c.args) == 5 && foldEqual(c.args[2], "FILTERBY"):
		switch {
		case foldEqual(c.args[3], "MODULE"):
			keep = func(*command) bool { return false }
		case foldEqual(c.args[3], "ACLCAT"):
			keep = func(cmd *command) bool { return cmd.inCategory(c.args[4]) }
		case foldEqual(c.args[3], "PATTERN"):
			pattern, ok := glob.Compile(bytes.ToLower(c.args[4]))
			if !ok {
				c.fail(errPatternTooLong)
				return
			}
			keep = func(cmd *command) bool { return pattern.Match([]byte(cmd.fullName())) }
		default:
			c.fail(errSyntax)
			return
		}
	default:
		c.fail(errSyntax)
		return
	}
	c.texts(c.srv.table.names(keep))
}

func (c *call) commandGetKeys() {
	cmd, positions := c.keysOf(c.args[2:])
	if cmd == nil {
		return
	}
	c.array(len(positions))
	for _, i := range positions {
		c.bulk(c.args[2+i])
	}
}

func (c *call) commandGetKeysAndFlags() {
	cmd, positions := c.keysOf(c.args[2:])
	if cmd == nil {
		return
	}
	c.array(len(positions))
	for _, i := range positions {
		c.array(2)
		c.bulk(c.args[2+i])
		c.simpleSet(cmd.keySpecFlags())
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
		c.fail(errNotACommand)
		return nil, nil
	case !cmd.hasKeys():
		c.fail(errNoKeyArguments)
		return nil, nil
	case !cmd.arityOK(len(line)):
		c.fail(errCommandArgs)
		return nil, nil
	}
	var positions []int
	cmd.keys(line, func(i int) { positions = append(positions, i) })
	if len(positions) == 0 && cmd.numKeys > 0 {
		c.fail(errNoKeysHere)
		return nil, nil
	}
	if len(positions) == 0 {
		c.fail(errNoKeyArguments)
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
			out = append(out, c.fullName())
		}
		for i := range c.subs {
			if keep(&c.subs[i]) {
				out = append(out, c.subs[i].fullName())
			}
		}
	}
	return out
}

// inCategory reports whether c is in the ACL category name, written without its @.
func (c *command) inCategory(name []byte) bool {
	for _, cat := range c.categories() {
		if strings.EqualFold(cat[1:], string(name)) {
			return true
		}
	}
	return false
}
