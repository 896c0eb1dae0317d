package server

import "strings"

// ACL: there is one user, called default, who may do everything.
func aclCommands() []command {
	sub := func(name string, arity int, f flags, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f | flagLoading | flagStale, group: "server", since: "1.0.0",
			complexity: "O(1)", summary: summary, args: args, run: run,
		}
	}
	user := argument{name: "username", kind: "string"}
	return []command{{
		name: "ACL", arity: -2, group: "server", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "Container for commands about users. The only user, default, may do everything.",
		subs: []command{
			sub("WHOAMI", 2, 0, "Returns default, the only user.", func(c *call) { c.text("default") }),
			sub("USERS", 2, flagAdmin, "Lists the users.", func(c *call) { c.texts([]string{"default"}) }),
			sub("LIST", 2, flagAdmin, "Describes the users.", func(c *call) {
				c.texts([]string{"user default on " + c.srv.passwordRule() + " ~* &* +@all"})
			}),
			sub("GETUSER", 3, flagAdmin, "Describes a user; null if there is none.", (*call).aclGetUser, user),
			sub("CAT", -2, 0, "Lists the categories of commands, or the commands of a category.", (*call).aclCat,
				argument{name: "category", kind: "string", optional: true}),
			sub("LOG", -2, flagAdmin, "Returns an empty list: limitdb refuses no user a command.", func(c *call) {
				if len(c.args) == 3 && foldEqual(c.args[2], "RESET") {
					c.ok()
					return
				}
				c.array(0)
			}, argument{name: "count-or-reset", kind: "string", optional: true}),
			sub("HELP", 2, 0, "Lists the subcommands.", (*call).help),
		},
	}}
}

// passwordRule returns the user's password in ACL notation. Redis shows a hash here, from which
// an attacker can find a weak password.
func (srv *Server) passwordRule() string {
	if srv.password() == "" {
		return "nopass"
	}
	return "#" + redactedText
}

func (c *call) aclGetUser() {
	if string(c.args[2]) != "default" {
		c.null()
		return
	}
	c.mapOf(6)
	c.text("flags")
	if c.srv.password() == "" {
		c.set(2)
		c.text("on")
		c.text("nopass")
	} else {
		c.set(1)
		c.text("on")
	}
	c.text("passwords")
	if c.srv.password() == "" {
		c.array(0)
	} else {
		c.texts([]string{redactedText})
	}
	for _, rule := range [...][2]string{{"commands", "+@all"}, {"keys", "~*"}, {"channels", "&*"}} {
		c.text(rule[0])
		c.text(rule[1])
	}
	c.text("selectors")
	c.array(0)
}

func (c *call) aclCat() {
	if len(c.args) > 3 {
		c.fail(errSyntax)
		return
	}
	if len(c.args) == 3 {
		names := c.srv.table.names(func(cmd *command) bool { return cmd.inCategory(c.args[2]) })
		if len(names) == 0 {
			c.fail("ERR Unknown category '" + plainCut(c.args[2]) + "'")
			return
		}
		c.texts(names)
		return
	}
	var list []string
	seen := make(map[string]bool)
	for _, cmd := range c.srv.table.all {
		for _, cat := range cmd.categories() {
			if !seen[cat] {
				seen[cat] = true
				list = append(list, strings.TrimPrefix(cat, "@"))
			}
		}
	}
	c.texts(list)
}
