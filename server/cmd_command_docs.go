package server

// commandDocs replies to COMMAND DOCS with a map for each command. redis-cli builds its hints
// from it.
func (c *call) commandDocs() {
	list := c.srv.table.byName
	if len(c.args) > 2 {
		list = nil
		seen := make(map[*command]bool)
		for _, name := range c.args[2:] {
			if cmd := c.srv.table.findFull(name); cmd != nil && !seen[cmd] {
				seen[cmd] = true
				list = append(list, cmd)
			}
		}
	}
	c.mapOf(len(list))
	c.eachStep(len(list), 1, nil, func(i int) {
		c.text(list[i].fullName())
		c.commandDoc(list[i])
	}, nil)
}

func (c *call) commandDoc(cmd *command) {
	fields := 4
	if len(cmd.args) > 0 {
		fields++
	}
	if len(cmd.subs) > 0 {
		fields++
	}
	c.mapOf(fields)
	for _, f := range [...][2]string{{"summary", cmd.summary}, {"since", cmd.since}, {"group", cmd.group}, {"complexity", cmd.complexity}} {
		c.text(f[0])
		c.text(f[1])
	}
	if len(cmd.args) > 0 {
		c.text("arguments")
		c.argumentDocs(cmd, cmd.args)
	}
	if len(cmd.subs) > 0 {
		c.text("subcommands")
		c.mapOf(len(cmd.subs))
		for i := range cmd.subs {
			c.text(cmd.subs[i].fullName())
			c.commandDoc(&cmd.subs[i])
		}
	}
}

func (c *call) argumentDocs(cmd *command, args []argument) {
	c.array(len(args))
	for i := range args {
		c.argumentDoc(cmd, &args[i])
	}
}

// argumentDoc replies with one argument. It leaves out empty and false fields, as Redis does:
// clients take a field that is present as true.
func (c *call) argumentDoc(cmd *command, a *argument) {
	leaf := a.kind != "oneof" && a.kind != "block"
	isKey := a.kind == "key" && cmd.hasKeys()
	var flags []string
	if a.optional {
		flags = append(flags, "optional")
	}
	if a.multiple {
		flags = append(flags, "multiple")
	}
	fields := 2
	for _, there := range []bool{leaf, isKey, a.token != "", flags != nil, len(a.args) > 0} {
		if there {
			fields++
		}
	}
	c.mapOf(fields)
	c.text("name")
	c.text(a.name)
	c.text("type")
	c.text(a.kind)
	if leaf {
		c.text("display_text")
		c.text(a.name)
	}
	if isKey {
		c.text("key_spec_index")
		c.int(0)
	}
	if a.token != "" {
		c.text("token")
		c.text(a.token)
	}
	if flags != nil {
		c.text("flags")
		c.simpleSet(flags)
	}
	if len(a.args) > 0 {
		c.text("arguments")
		c.argumentDocs(cmd, a.args)
	}
}
