package users

import (
	"slices"
	"strings"

	"limitdb/server/spec"
)

// A Catalog has the commands that rules name.
type Catalog interface {
	// Find returns the command of a name in any case, or nil.
	Find(name []byte) *spec.Command
	// Commands returns all commands and subcommands, by their id.
	Commands() []*spec.Command
}

// A commandSet is a set of commands, and the rules that have made it.
type commandSet struct {
	all   bool // every command, also one that is not known yet
	bits  []uint64
	rules []string // in their order, after +@all or -@all; in lower case
}

func (s *commandSet) clone() commandSet {
	return commandSet{s.all, slices.Clone(s.bits), slices.Clone(s.rules)}
}

func (s *commandSet) has(id int) bool { return id>>6 < len(s.bits) && s.bits[id>>6]&(1<<(id&63)) != 0 }

// allow makes the set have all commands.
func (s *commandSet) allow() { *s = commandSet{all: true} }

// clear makes the set have none.
func (s *commandSet) clear() { *s = commandSet{} }

// set adds a command, or removes it.
func (s *commandSet) set(id int, on bool) {
	for id>>6 >= len(s.bits) {
		s.bits = append(s.bits, 0)
	}
	if s.bits[id>>6] &^= 1 << (id & 63); on {
		s.bits[id>>6] |= 1 << (id & 63)
	}
}

// apply adds what a rule names, or removes it: a command with its subcommands, one subcommand, or a category. It returns the error, or "".
func (s *commandSet) apply(name string, on bool, known Catalog) (problem string) {
	name = strings.ToLower(name)
	if name == "@all" {
		if s.clear(); on {
			s.allow()
		}
		return ""
	}
	var named []*spec.Command
	if category, ok := strings.CutPrefix(name, "@"); ok {
		for _, c := range known.Commands() {
			if c.InCategory([]byte(category)) {
				named = append(named, c)
			}
		}
	} else if named, problem = namedBy(name, known); problem != "" {
		return problem
	}
	if len(named) == 0 {
		return errUnknown
	}
	if s.all {
		s.expand(known)
	}
	for _, c := range named {
		s.set(c.ID, on)
	}
	s.note(name, on)
	return ""
}

// expand writes out all commands, so that some can be removed. The rules then begin with +@all.
func (s *commandSet) expand(known Catalog) {
	s.all = false
	for _, c := range known.Commands() {
		s.set(c.ID, true)
	}
	s.rules = []string{"+@all"}
}

// namedBy returns a command with its subcommands, or one subcommand.
func namedBy(name string, known Catalog) (all []*spec.Command, problem string) {
	parent, sub, nested := strings.Cut(name, "|")
	c := known.Find([]byte(parent))
	if c == nil {
		return nil, errUnknown
	}
	if nested {
		if len(c.Subs) == 0 {
			return nil, errFirstArg
		}
		if c = c.Sub([]byte(sub)); c == nil {
			return nil, errUnknown
		}
		return []*spec.Command{c}, ""
	}
	return append([]*spec.Command{c}, c.Subs...), ""
}

// note remembers a rule. It drops earlier ones of the same name, and those of its subcommands, which no longer count.
func (s *commandSet) note(name string, on bool) {
	s.rules = slices.DeleteFunc(s.rules, func(rule string) bool {
		return rule[1:] == name || strings.HasPrefix(rule[1:], name+"|")
	})
	sign := "-"
	if on {
		sign = "+"
	}
	s.rules = append(s.rules, sign+name)
}

// text returns the rules that make the set.
func (s *commandSet) text() string {
	switch {
	case s.all:
		return "+@all"
	case len(s.rules) > 0 && s.rules[0] == "+@all":
		return strings.Join(s.rules, " ")
	}
	return strings.Join(append([]string{"-@all"}, s.rules...), " ")
}
