package spec

import (
	"strings"

	"limitdb/internal/suggest"
	"limitdb/resp"
)

// Hints that errors add to Redis' own texts: a similar name, the usage, an example. A hint
// follows the text that clients know and parse.

// Aside appends a hint, which may be empty, to a text.
func Aside(text, hint string) string {
	if hint == "" {
		return text
	}
	return strings.TrimSuffix(text, " ") + " (" + hint + ")"
}

// Meant returns "did you mean 'X'?" if word is similar to the name of one of all, and otherwise "".
func Meant[T any](word []byte, all []T, nameOf func(T) string) string {
	if name, ok := suggest.Nearest(string(word), all, nameOf); ok {
		return "did you mean '" + name + "'?"
	}
	return ""
}

// NoSubcommand returns the reply to an unknown subcommand.
func (c *Command) NoSubcommand(name []byte) string {
	return Aside("ERR unknown subcommand '"+resp.Excerpt(name)+"'. Try "+c.Name+" HELP.", Meant(name, c.Subs, func(c *Command) string { return c.Name }))
}

// WrongArity returns the reply to a wrong number of arguments: Redis' text, followed by the usage
// for our own commands.
func (c *Command) WrongArity() string {
	if c.Usage != "" {
		return c.Usage
	}
	text := "ERR wrong number of arguments for '" + c.Full + "' command"
	if c.Example == "" {
		return text
	}
	return text + ". Usage: " + string(c.AppendSyntax(nil)) + ". Example: " + c.Example
}
