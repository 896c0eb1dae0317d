package server

import (
	"iter"
	"strings"

	"limitdb/internal/suggest"
	"limitdb/limit"
	"limitdb/resp"
)

// Hints that errors add to Redis' own texts: a similar name, the usage, an example. A hint
// follows the text that clients know and parse.

// aside appends a hint, which may be empty, to a text.
func aside(text, hint string) string {
	if hint == "" {
		return text
	}
	return strings.TrimSuffix(text, " ") + " (" + hint + ")"
}

// meant returns "did you mean 'X'?" if word is similar to one of names, and otherwise "".
func meant(word []byte, names iter.Seq[string]) string {
	if name, ok := suggest.Nearest(string(word), names); ok {
		return "did you mean '" + name + "'?"
	}
	return ""
}

// namesOf yields the names of commands.
func namesOf[C any](commands []C, name func(*C) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range commands {
			if !yield(name(&commands[i])) {
				return
			}
		}
	}
}

// commandHint returns a hint for an unknown command.
func (t *table) commandHint(name []byte) string {
	if use := insteadOf(name); use != "" {
		return use
	}
	return meant(name, namesOf(t.byName, func(c **command) string { return (*c).Name }))
}

// noSubcommand returns the reply to an unknown subcommand.
func (c *command) noSubcommand(name []byte) string {
	return aside("ERR unknown subcommand '"+resp.Excerpt(name)+"'. Try "+c.Name+" HELP.",
		meant(name, namesOf(c.subs, func(c *command) string { return c.Name })))
}

// wrongArity returns the reply to a wrong number of arguments: Redis' text, followed by the usage
// for our own commands.
func (c *command) wrongArity() string {
	if c.Usage != "" {
		return c.Usage
	}
	text := "ERR wrong number of arguments for '" + c.Full + "' command"
	if c.Example == "" {
		return text
	}
	return text + ". Usage: " + string(c.AppendSyntax(nil)) + ". Example: " + c.Example
}

// noAlgorithm returns a hint for a word that names no algorithm.
func noAlgorithm(word []byte) string {
	if len(word) > 0 && '0' <= word[0] && word[0] <= '9' {
		return "the algorithm comes first, as in GCRA 100/m"
	}
	return meant(word, func(yield func(string) bool) {
		for _, a := range limit.Algorithms() {
			if !yield(a.String()) {
				return
			}
		}
	})
}

// noOption returns a hint for a word that is neither an option of the algorithm nor one of the
// command's own.
func noOption(word []byte, a limit.Algorithm, allowed ownOptions) string {
	var known, owners []string
	for _, o := range limit.Options() {
		for _, of := range o.Algorithms {
			if of == a {
				known = append(known, o.Name)
			}
			if resp.EqualFold(word, o.Name) {
				owners = append(owners, of.String())
			}
		}
	}
	if len(owners) > 0 {
		return "it is an option of " + strings.Join(owners, ", ")
	}
	for i, name := range ownNames() {
		if allowed&(1<<i) != 0 {
			known = append(known, name)
		}
	}
	return meant(word, func(yield func(string) bool) {
		for _, name := range known {
			if !yield(name) {
				return
			}
		}
	})
}
