package server

import (
	"iter"
	"strings"

	"limitdb/internal/suggest"
	"limitdb/limit"
)

// What errors add to Redis' own words: the name that was meant, the usage, an
// example. All of it stands behind the text that clients know and take apart.

// aside appends a hint to a text; there may be none.
func aside(text, hint string) string {
	if hint == "" {
		return text
	}
	return strings.TrimSuffix(text, " ") + " (" + hint + ")"
}

// meant returns "did you mean 'X'?" for a word that is near one of names, else "".
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

// commandHint says what may have been meant by a command that there is not.
func (t *table) commandHint(name []byte) string {
	if use := insteadOf(name); use != "" {
		return use
	}
	return meant(name, namesOf(t.byName, func(c **command) string { return (*c).name }))
}

// noSubcommand is the reply to a subcommand that there is not.
func (c *command) noSubcommand(name []byte) string {
	return aside("ERR unknown subcommand '"+plainCut(name)+"'. Try "+c.name+" HELP.",
		meant(name, namesOf(c.subs, func(c *command) string { return c.name })))
}

// wrongArity is the reply to a wrong number of arguments: Redis' words, and for
// our own commands the usage.
func (c *command) wrongArity() string {
	if c.usage != "" {
		return c.usage
	}
	text := "ERR wrong number of arguments for '" + c.fullName() + "' command"
	if c.example == "" {
		return text
	}
	return text + ". Usage: " + string(c.appendSyntax(nil)) + ". Example: " + c.example
}

// noAlgorithm says what may have been meant by a word that names no algorithm.
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

// noOption says what may have been meant by a word that is no option of the
// algorithm and none of those that the command has of its own.
func noOption(word []byte, a limit.Algorithm, allowed ownOptions) string {
	var known, owners []string
	for _, o := range limit.Options() {
		for _, of := range o.Algorithms {
			if of == a {
				known = append(known, o.Name)
			}
			if foldEqual(word, o.Name) {
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
