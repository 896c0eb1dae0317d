// Package spec describes commands: their names, arguments, keys and flags, and how COMMAND, the reference
// and errors show them.
package spec

import (
	"strings"

	"limitdb/resp"
)

// A Command describes one command or subcommand. Arity checks, COMMAND and its subcommands, ACL
// categories and docs/commands.md all come from it.
type Command struct {
	Name  string // upper case; a subcommand's is without its parent's
	Arity int    // as in Redis: counts the command's name; negative: at least that many
	Flags Flags
	// FirstKey, LastKey and Step give the positions of the keys as Redis does.
	// FirstKey 0: no keys; LastKey negative: counted from the end.
	FirstKey, LastKey, Step int
	// NumKeys is the position of the argument that gives the number of keys; the keys follow
	// it. 0: FirstKey, LastKey and Step give the positions.
	NumKeys int
	// KeyFlags are Redis' key spec flags, as words, for each key; the last are those of all further keys. nil: as Flags say.
	KeyFlags []string
	// Route is the position of an argument of a command without keys by which clients of clusters choose the node, as
	// they do by a key; 0: there is none.
	Route int
	// Namespace is the position of a namespace of rules that may be left out; 0: there is none, or it is at Route.
	Namespace int
	// Channels says which arguments are channels.
	Channels ChannelUse
	// KeyFlagsOf returns the flags of the keys of one call, if calls differ; nil: they don't.
	KeyFlagsOf func(args [][]byte) string

	Group      string
	Summary    string
	Since      string // the version of limitdb; empty: 1.0.0
	Complexity string
	Args       []Argument
	Usage      string // the reply to a wrong number of arguments; empty: Redis' own
	Example    string // a valid call, which that reply shows after the syntax

	// These are set when the command is put into the table.

	Full       string     // FullName
	ID         int        // position in the statistics
	Parent     *Command   // of a subcommand
	Subs       []*Command // its subcommands
	categories []string
	access     []Access // of each key; the last is that of all further keys
}

// keyFlags returns Redis' key spec flags, which describe what the command does with its keys: those of each key, the last for all further ones.
func (c *Command) keyFlags() []string {
	switch {
	case c.KeyFlags != nil:
		return c.KeyFlags
	case c.Route > 0:
		return []string{"not_key"}
	case c.Flags&Write != 0:
		return []string{"RW access update"}
	}
	return []string{"RO access"}
}

// FullName returns the name as Redis writes it in statistics: lower case, as "config|get".
func (c *Command) FullName() string {
	if c.Parent != nil {
		return strings.ToLower(c.Parent.Name + "|" + c.Name)
	}
	return strings.ToLower(c.Name)
}

// HasKeys reports whether the command takes keys.
func (c *Command) HasKeys() bool { return c.FirstKey|c.NumKeys > 0 }

// KeyRange returns where the keys are in args: every step-th argument from one index up to another.
func (c *Command) KeyRange(args [][]byte) (from, to, step int) {
	if c.NumKeys > 0 {
		n, ok := resp.ParseInt(args[c.NumKeys])
		from = c.NumKeys + 1
		if !ok || n < 0 {
			n = 0
		}
		return from, from + int(min(n, int64(len(args)-from))), 1
	}
	if c.FirstKey <= 0 {
		return 0, 0, 1
	}
	to = c.LastKey + 1
	if to <= 0 {
		to += len(args)
	}
	return c.FirstKey, max(c.FirstKey, min(to, len(args))), c.Step
}

// Keys yields the positions of the keys in args.
func (c *Command) Keys(args [][]byte, yield func(i int)) {
	from, to, step := c.KeyRange(args)
	for i := from; i < to; i += step {
		yield(i)
	}
}

// ArityOK reports whether the command accepts n arguments, the name included.
func (c *Command) ArityOK(n int) bool {
	if c.Arity < 0 {
		return n >= -c.Arity
	}
	return n == c.Arity
}

// Categories returns the command's ACL categories, derived from its flags and group.
func (c *Command) Categories() []string {
	if c.categories != nil {
		return c.categories
	}
	var out []string
	add := func(when bool, name string) {
		if when {
			out = append(out, name)
		}
	}
	add(c.Group == "generic", "@keyspace")
	add(c.Flags&Decides != 0, "@limit")
	add(c.Group == "rules", "@rules")
	add(c.Parent != nil && c.Parent.Name == "RAFT" || c.Name == "RAFT", "@raft")
	switch c.Group {
	case "string", "hash", "list", "set", "scripting":
		add(true, "@"+c.Group)
	case "sorted-set":
		add(true, "@sortedset")
	case "transactions":
		add(true, "@transaction")
	}
	// Who may write data may not therefore change rules, which is an administrator's.
	add(c.Flags&Write != 0 && c.Flags&Admin == 0, "@write")
	add(c.Flags&Readonly != 0, "@read")
	add(c.Flags&Admin != 0, "@admin")
	add(c.Flags&(Admin|Dangerous) != 0, "@dangerous")
	add(c.Flags&PubSub != 0, "@pubsub")
	add(c.Flags&Conn != 0, "@connection")
	add(c.Flags&Blocking != 0, "@blocking")
	add(c.Flags&Fast != 0, "@fast")
	add(c.Flags&Fast == 0, "@slow")
	return out
}

// InCategory reports whether the command is in the ACL category name, written without its @.
func (c *Command) InCategory(name []byte) bool {
	for _, cat := range c.Categories() {
		if resp.EqualFold(name, cat[1:]) {
			return true
		}
	}
	return false
}

// Leads reports whether only the node that leads can run the command.
func (c *Command) Leads() bool { return c.Flags&(Write|Readonly|Lead) != 0 }

// Sub returns c's subcommand of that name, or nil.
func (c *Command) Sub(name []byte) *Command {
	for _, sub := range c.Subs {
		if resp.EqualFold(name, sub.Name) {
			return sub
		}
	}
	return nil
}
