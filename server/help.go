package server

// help lists the subcommands of the container that was called.
func (c *call) help() {
	cmd := c.srv.table.find(c.args[0])
	lines := []string{cmd.name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for i := range cmd.subs {
		syntax := cmd.subs[i].appendSyntax(nil)
		lines = append(lines, string(syntax[len(cmd.name)+1:]), "    "+cmd.subs[i].summary)
	}
	c.array(len(lines))
	for _, l := range lines {
		c.simple(l)
	}
}
