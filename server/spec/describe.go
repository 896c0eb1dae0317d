package spec

import "limitdb/resp"

// AppendRow replies with the ten fields with which Redis 7 describes a command.
func (c *Command) AppendRow(r *resp.Reply) {
	r.Array(10)
	r.Text(c.Full)
	r.Int(int64(c.Arity))
	words(r, c.Flags.Names())
	r.Int(int64(c.FirstKey))
	r.Int(int64(c.LastKey))
	r.Int(int64(c.Step))
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

// AppendKeyFlags replies with what the command does with its keys.
func (c *Command) AppendKeyFlags(r *resp.Reply) { words(r, c.KeySpecFlags()) }

// appendKeySpecs replies with the positions of the keys and what the command does with them.
func (c *Command) appendKeySpecs(r *resp.Reply) {
	if !c.HasKeys() {
		r.Set(0)
		return
	}
	r.Set(1)
	r.Map(3)
	r.Text("flags")
	c.AppendKeyFlags(r)
	r.Text("begin_search")
	r.Map(2)
	r.Text("type")
	r.Text("index")
	r.Text("spec")
	r.Map(1)
	r.Text("index")
	r.Int(int64(c.FirstKey + c.NumKeys)) // one of them is 0
	r.Text("find_keys")
	r.Map(2)
	r.Text("type")
	if c.NumKeys > 0 {
		r.Text("keynum")
		r.Text("spec")
		integers(r, []string{"keynumidx", "firstkey", "keystep"}, 0, 1, 1)
		return
	}
	last := c.LastKey
	if last > 0 {
		last -= c.FirstKey // counted from the first key
	}
	r.Text("range")
	r.Text("spec")
	integers(r, []string{"lastkey", "keystep", "limit"}, last, c.Step, 0)
}

// integers replies with a map of integers.
func integers(r *resp.Reply, names []string, values ...int) {
	r.Map(len(names))
	for i, name := range names {
		r.Text(name)
		r.Int(int64(values[i]))
	}
}

// AppendDoc replies with the map that COMMAND DOCS has for the command. redis-cli builds its hints
// from it.
func (c *Command) AppendDoc(r *resp.Reply) {
	fields := 4
	if len(c.Args) > 0 {
		fields++
	}
	if len(c.Subs) > 0 {
		fields++
	}
	r.Map(fields)
	for _, f := range [...][2]string{{"summary", c.Summary}, {"since", c.Since}, {"group", c.Group}, {"complexity", c.Complexity}} {
		r.Text(f[0])
		r.Text(f[1])
	}
	if len(c.Args) > 0 {
		r.Text("arguments")
		c.appendArguments(r, c.Args)
	}
	if len(c.Subs) > 0 {
		r.Text("subcommands")
		r.Map(len(c.Subs))
		for _, sub := range c.Subs {
			r.Text(sub.Full)
			sub.AppendDoc(r)
		}
	}
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
	leaf := a.Kind != "oneof" && a.Kind != "block"
	isKey := a.Kind == "key" && c.HasKeys()
	var flags []string
	if a.Optional {
		flags = append(flags, "optional")
	}
	if a.Multiple {
		flags = append(flags, "multiple")
	}
	fields := 2
	for _, there := range []bool{leaf, isKey, a.Token != "", flags != nil, len(a.Args) > 0} {
		if there {
			fields++
		}
	}
	r.Map(fields)
	r.Text("name")
	r.Text(a.Name)
	r.Text("type")
	r.Text(a.Kind)
	if leaf {
		r.Text("display_text")
		r.Text(a.Name)
	}
	if isKey {
		r.Text("key_spec_index")
		r.Int(0)
	}
	if a.Token != "" {
		r.Text("token")
		r.Text(a.Token)
	}
	if flags != nil {
		r.Text("flags")
		words(r, flags)
	}
	if len(a.Args) > 0 {
		r.Text("arguments")
		c.appendArguments(r, a.Args)
	}
}
