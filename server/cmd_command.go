package server

import (
	"bytes"
	"strings"

	"limitdb/internal/glob"
)

// COMMAND: the table, told to clients. What is asked for most is DOCS, for the
// hints of redis-cli, and the rows, by clients of clusters.
func commandCommands() []command {
	sub := func(name string, arity int, complexity, summary string, run func(*session, [][]byte), args ...argument) command {
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
		complexity: "O(n) for n commands", summary: "Describes all commands.", run: (*session).commandAll,
		subs: []command{
			sub("COUNT", 2, "O(1)", "Counts the commands.", func(s *session, _ [][]byte) { s.int(int64(len(s.srv.table.byName))) }),
			sub("DOCS", -2, "O(n) for n commands", "Replies what people should know of commands; of all, if none is named.", (*session).commandDocs, names),
			sub("GETKEYS", -3, "O(n) for n arguments", "Replies the keys in a command.", (*session).commandGetKeys, whole...),
			sub("GETKEYSANDFLAGS", -3, "O(n) for n arguments", "Replies the keys in a command, and what it does with them.", (*session).commandGetKeysAndFlags, whole...),
			sub("INFO", -2, "O(n) for n commands", "Describes commands; all, if none is named.", (*session).commandInfo, names),
			sub("LIST", -2, "O(n) for n commands", "Lists the names of commands.", (*session).commandList, filter),
			sub("HELP", 2, "O(1)", "Lists the subcommands.", (*session).help),
		},
	}}
}

func (s *session) commandAll(args [][]byte) {
	if len(args) > 1 {
		s.fail(s.srv.table.find(args[0]).noSubcommand(args[1]))
		return
	}
	s.array(len(s.srv.table.byName))
	s.eachStep(len(s.srv.table.byName), 1, nil, func(i int) { s.commandRow(s.srv.table.byName[i]) }, nil)
}

func (s *session) commandInfo(args [][]byte) {
	if len(args) == 2 {
		s.commandAll(args[:1])
		return
	}
	found := make([]*command, 0, len(args)-2)
	for _, name := range args[2:] {
		found = append(found, s.srv.table.findFull(name))
	}
	s.array(len(found))
	s.eachStep(len(found), 1, nil, func(i int) {
		if found[i] == nil {
			s.null()
			return
		}
		s.commandRow(found[i])
	}, nil)
}

// commandRow replies the ten fields that Redis 7 describes a command by.
func (s *session) commandRow(c *command) {
	s.array(10)
	s.text(c.fullName())
	s.int(int64(c.arity))
	s.simpleSet(c.flags.names())
	s.int(int64(c.firstKey))
	s.int(int64(c.lastKey))
	s.int(int64(c.step))
	s.simpleSet(c.categories())
	s.set(0) // tips
	s.keySpecs(c)
	s.set(len(c.subs))
	for i := range c.subs {
		s.commandRow(&c.subs[i])
	}
}

// simpleSet replies a set of simple strings.
func (s *session) simpleSet(words []string) {
	s.set(len(words))
	for _, w := range words {
		s.simple(w)
	}
}

// keySpecs replies where the keys are and what the command does with them.
func (s *session) keySpecs(c *command) {
	if !c.hasKeys() {
		s.set(0)
		return
	}
	s.set(1)
	s.mapOf(3)
	s.text("flags")
	s.simpleSet(c.keySpecFlags())
	s.text("begin_search")
	s.mapOf(2)
	s.text("type")
	s.text("index")
	s.text("spec")
	s.mapOf(1)
	s.text("index")
	s.int(int64(c.firstKey + c.numKeys)) // one of them is 0
	s.text("find_keys")
	s.mapOf(2)
	s.text("type")
	if c.numKeys > 0 {
		s.text("keynum")
		s.text("spec")
		s.integers([]string{"keynumidx", "firstkey", "keystep"}, 0, 1, 1)
		return
	}
	last := c.lastKey
	if last > 0 {
		last -= c.firstKey // counted from the first key
	}
	s.text("range")
	s.text("spec")
	s.integers([]string{"lastkey", "keystep", "limit"}, last, c.step, 0)
}

// integers replies a map of integers.
func (s *session) integers(names []string, values ...int) {
	s.mapOf(len(names))
	for i, name := range names {
		s.text(name)
		s.int(int64(values[i]))
	}
}

func (s *session) commandList(args [][]byte) {
	keep := func(*command) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) == 5 && foldEqual(args[2], "FILTERBY"):
		switch {
		case foldEqual(args[3], "MODULE"):
			keep = func(*command) bool { return false }
		case foldEqual(args[3], "ACLCAT"):
			keep = func(c *command) bool { return c.inCategory(args[4]) }
		case foldEqual(args[3], "PATTERN"):
			pattern, ok := glob.Compile(bytes.ToLower(args[4]))
			if !ok {
				s.fail(errPatternTooLong)
				return
			}
			keep = func(c *command) bool { return pattern.Match([]byte(c.fullName())) }
		default:
			s.fail(errSyntax)
			return
		}
	default:
		s.fail(errSyntax)
		return
	}
	s.texts(s.srv.table.names(keep))
}

func (s *session) commandGetKeys(args [][]byte) {
	c, positions := s.keysOf(args[2:])
	if c == nil {
		return
	}
	s.array(len(positions))
	for _, i := range positions {
		s.bulk(args[2+i])
	}
}

func (s *session) commandGetKeysAndFlags(args [][]byte) {
	c, positions := s.keysOf(args[2:])
	if c == nil {
		return
	}
	s.array(len(positions))
	for _, i := range positions {
		s.array(2)
		s.bulk(args[2+i])
		s.simpleSet(c.keySpecFlags())
	}
}

// keysOf finds the command that line is and the positions of its keys; it
// replies with the error and returns nil where there are none.
func (s *session) keysOf(line [][]byte) (*command, []int) {
	c := s.srv.table.find(line[0])
	if c != nil && len(c.subs) > 0 && len(line) > 1 {
		c = c.sub(line[1])
	}
	switch {
	case c == nil:
		s.fail(errNotACommand)
		return nil, nil
	case !c.hasKeys():
		s.fail(errNoKeyArguments)
		return nil, nil
	case !c.arityOK(len(line)):
		s.fail(errCommandArgs)
		return nil, nil
	}
	var positions []int
	c.keys(line, func(i int) { positions = append(positions, i) })
	if len(positions) == 0 && c.numKeys > 0 {
		s.fail(errNoKeysHere)
		return nil, nil
	}
	if len(positions) == 0 {
		s.fail(errNoKeyArguments)
		return nil, nil
	}
	return c, positions
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

// names lists the full names of the commands and subcommands to keep, by name.
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

// inCategory tells whether c is in the ACL category called name, without its @.
func (c *command) inCategory(name []byte) bool {
	for _, cat := range c.categories() {
		if strings.EqualFold(cat[1:], string(name)) {
			return true
		}
	}
	return false
}
