package spec

import (
	"strings"

	"limitdb/resp"
)

// AppendRow replies with the ten fields with which Redis 7 describes a command.
func (c *Command) AppendRow(r *resp.Reply) {
	r.Array(10)
	r.Text(c.Full)
	r.Int(int64(c.Arity))
	words(r, c.Flags.Names())
	first, last, step := c.FirstKey, c.LastKey, c.Step
	if c.Route > 0 {
		first, last, step = c.Route, c.Route, 1
	}
	r.Int(int64(first))
	r.Int(int64(last))
	r.Int(int64(step))
	words(r, c.Categories())
	r.Set(0) // tips
	c.appendKeySpecs(r)
	r.Set(len(c.Subs))
	for _, sub := range c.Subs {
		sub.AppendRow(r)
	}
}

// words replies with a set of simple strings.
func words(r *resp.Reply, list []string) {
	r.Set(len(list))
	for _, w := range list {
		r.Simple(w)
	}
}

// AppendKeyFlags replies with what a call does with the key at a position in args.
func (c *Command) AppendKeyFlags(r *resp.Reply, args [][]byte, key int) {
	if c.KeyFlagsOf != nil {
		words(r, strings.Fields(c.KeyFlagsOf(args)))
		return
	}
	all := c.keyFlags()
	from, _, step := c.KeyRange(args)
	words(r, strings.Fields(all[min((key-from)/max(step, 1), len(all)-1)]))
}

// appendKeySpecs replies with the positions of the keys and what the command does with them: for all keys together, or for each if it does
// something else with each.
func (c *Command) appendKeySpecs(r *resp.Reply) {
	if !c.HasKeys() && c.Route == 0 {
		r.Set(0)
		return
	}
	all := c.keyFlags()
	r.Set(len(all))
	for i, flags := range all {
		find, how := "range", func() {
			last := c.LastKey
			if last > 0 {
				last -= c.FirstKey // counted from the first key
			}
			if len(all) > 1 {
				last = 0
			}
			r.Fields("lastkey", last, "keystep", max(c.Step, 1), "limit", 0)
		}
		if c.NumKeys > 0 {
			find, how = "keynum", func() { r.Fields("keynumidx", 0, "firstkey", 1, "keystep", 1) }
		}
		r.Fields(
			"flags", func() { words(r, strings.Fields(flags)) },
			"begin_search", func() {
				r.Fields("type", "index", "spec", func() { r.Fields("index", c.FirstKey+c.NumKeys+c.Route+i) }) // only one is not 0
			},
			"find_keys", func() { r.Fields("type", find, "spec", how) },
		)
	}
}

// keySpec returns which of the key specs is that of an argument.
func (c *Command) keySpec(a *Argument) (n int) {
	for i := range c.Args {
		switch {
		case a == &c.Args[i]:
			return min(n, len(c.keyFlags())-1)
		case c.Args[i].Kind == "key":
			n++
		}
	}
	return 0
}

// AppendDoc replies with the map that COMMAND DOCS has for the command. redis-cli builds its hints
// from it.
func (c *Command) AppendDoc(r *resp.Reply) {
	fields := []any{"summary", c.Summary, "since", c.Since, "group", c.Group, "complexity", c.Complexity}
	if len(c.Args) > 0 {
		fields = append(fields, "arguments", func() { c.appendArguments(r, c.Args) })
	}
	if len(c.Subs) > 0 {
		fields = append(fields, "subcommands", func() {
			r.Map(len(c.Subs))
			for _, sub := range c.Subs {
				r.Text(sub.Full)
				sub.AppendDoc(r)
			}
		})
	}
	r.Fields(fields...)
}

func (c *Command) appendArguments(r *resp.Reply, args []Argument) {
	r.Array(len(args))
	for i := range args {
		c.appendArgument(r, &args[i])
	}
}

// appendArgument replies with one argument. It leaves out empty and false fields, as Redis does:
// clients take a field that is present as true.
func (c *Command) appendArgument(r *resp.Reply, a *Argument) {
	fields := []any{"name", a.Name, "type", a.Kind}
	if a.Kind != "oneof" && a.Kind != "block" {
		fields = append(fields, "display_text", a.Name)
	}
	if a.Kind == "key" && c.HasKeys() {
		fields = append(fields, "key_spec_index", c.keySpec(a))
	}
	if a.Token != "" {
		fields = append(fields, "token", a.Token)
	}
	var flags []string
	if a.Optional {
		flags = append(flags, "optional")
	}
	if a.Multiple {
		flags = append(flags, "multiple")
	}
	if flags != nil {
		fields = append(fields, "flags", func() { words(r, flags) })
	}
	if len(a.Args) > 0 {
		fields = append(fields, "arguments", func() { c.appendArguments(r, a.Args) })
	}
	r.Fields(fields...)
}
