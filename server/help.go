package server

// help lists the subcommands of the container that was called.
func (c *call) help() {
	cmd := c.srv.table.find(c.Args[0])
	lines := []string{cmd.Name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for i := range cmd.subs {
		syntax := cmd.subs[i].AppendSyntax(nil)
		lines = append(lines, string(syntax[len(cmd.Name)+1:]), "    "+cmd.subs[i].Summary)
	}
	c.Array(len(lines))
	for _, l := range lines {
		c.Simple(l)
	}
}
