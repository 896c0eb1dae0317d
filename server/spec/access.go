package spec

import "strings"

// Access is what a command does with a key: it reads it, changes it, both, or only looks whether it is there.
type Access uint8

// What a command does with a key.
const (
	Reads Access = 1 << iota
	Changes
)

// ChannelUse says which arguments of a command are channels.
type ChannelUse uint8

// The ways to name channels.
const (
	NoChannels      ChannelUse = iota
	OneChannel                 // the first argument
	AllChannels                // all arguments
	ChannelPatterns            // all arguments, which are patterns
)

// accessOf returns the access that Redis' key spec flags stand for.
func accessOf(flags string) (how Access) {
	if strings.Contains(flags, "access") {
		how |= Reads
	}
	if strings.Contains(flags, "update") || strings.Contains(flags, "insert") || strings.Contains(flags, "delete") {
		how |= Changes
	}
	return how
}

// Settle notes what follows from the description: the categories, and what the command does with its keys. The table calls it.
func (c *Command) Settle() {
	c.categories = c.Categories()
	for _, flags := range c.keyFlags() {
		c.access = append(c.access, accessOf(flags))
	}
}

// FirstAccess returns what the command does with its first key. Calls of the command do not differ in that.
func (c *Command) FirstAccess() Access { return c.access[0] }

// Access returns what a call does with the key at a position in args.
func (c *Command) Access(args [][]byte, key int) Access {
	if c.KeyFlagsOf != nil {
		return accessOf(c.KeyFlagsOf(args))
	}
	from, _, step := c.KeyRange(args)
	return c.access[min((key-from)/max(step, 1), len(c.access)-1)]
}

// Whole returns what a command does with keys that it does not name.
func (c *Command) Whole() Access {
	if c.Flags&Write != 0 {
		return Reads | Changes
	}
	return Reads
}
