package server

// COMMAND DOCS: a map for each command, from which redis-cli makes its hints.
func (s *session) commandDocs(args [][]byte) {
	list := s.srv.table.byName
	if len(args) > 2 {
		list = nil
		seen := make(map[*command]bool)
		for _, name := range args[2:] {
			if c := s.srv.table.findFull(name); c != nil && !seen[c] {
				seen[c] = true
				list = append(list, c)
			}
		}
	}
	s.mapOf(len(list))
	s.eachStep(len(list), 1, nil, func(i int) {
		s.text(list[i].fullName())
		s.commandDoc(list[i])
	}, nil)
}

func (s *session) commandDoc(c *command) {
	fields := 4
	if len(c.args) > 0 {
		fields++
	}
	if len(c.subs) > 0 {
		fields++
	}
	s.mapOf(fields)
	for _, f := range [...][2]string{{"summary", c.summary}, {"since", c.since}, {"group", c.group}, {"complexity", c.complexity}} {
		s.text(f[0])
		s.text(f[1])
	}
	if len(c.args) > 0 {
		s.text("arguments")
		s.argumentDocs(c, c.args)
	}
	if len(c.subs) > 0 {
		s.text("subcommands")
		s.mapOf(len(c.subs))
		for i := range c.subs {
			s.text(c.subs[i].fullName())
			s.commandDoc(&c.subs[i])
		}
	}
}

func (s *session) argumentDocs(c *command, args []argument) {
	s.array(len(args))
	for i := range args {
		s.argumentDoc(c, &args[i])
	}
}

// argumentDoc replies one argument. A field that says nothing is left out, as
// in Redis: clients take a field's being there for its being true.
func (s *session) argumentDoc(c *command, a *argument) {
	leaf := a.kind != "oneof" && a.kind != "block"
	isKey := a.kind == "key" && c.hasKeys()
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
	s.mapOf(fields)
	s.text("name")
	s.text(a.name)
	s.text("type")
	s.text(a.kind)
	if leaf {
		s.text("display_text")
		s.text(a.name)
	}
	if isKey {
		s.text("key_spec_index")
		s.int(0)
	}
	if a.token != "" {
		s.text("token")
		s.text(a.token)
	}
	if flags != nil {
		s.text("flags")
		s.simpleSet(flags)
	}
	if len(a.args) > 0 {
		s.text("arguments")
		s.argumentDocs(c, a.args)
	}
}
