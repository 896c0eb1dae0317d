package server

import (
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// ACL: there is one user, called default, who may do everything.
func aclRows() []row {
	sub := handler.Rows[call]("server", "O(1)", spec.Loading|spec.Stale)
	return []row{handler.Container("ACL", "server", "A container for commands about users. The only user, default, may do everything.",
		sub("WHOAMI", 2, 0, "Returns default, the only user.", func(c *call) { c.Text("default") }),
		sub("USERS", 2, spec.Admin, "Lists the users.", func(c *call) { c.Texts([]string{"default"}) }),
		sub("LIST", 2, spec.Admin, "Describes the users.", func(c *call) {
			c.Texts([]string{"user default on " + c.srv.passwordRule() + " ~* &* +@all"})
		}),
		sub("GETUSER", 3, spec.Admin, "Describes a user; null if there is none.", (*call).aclGetUser, spec.Text("username")),
		sub("CAT", -2, 0, "Lists the categories of commands, or the commands of a category.", func(c *call) { c.srv.table.Categories(c.inner()) },
			spec.Optional(spec.Text("category"))),
		sub("LOG", -2, spec.Admin, "Returns an empty list: limitdb refuses no user a command.", func(c *call) {
			if len(c.Args) == 3 && resp.EqualFold(c.Args[2], "RESET") {
				c.OK()
				return
			}
			c.Array(0)
		}, spec.Optional(spec.Text("count-or-reset"))),
	)}
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
	if string(c.Args[2]) != "default" {
		c.Null()
		return
	}
	flags, passwords := []string{"on"}, []string{redactedText}
	if c.srv.password() == "" {
		flags, passwords = []string{"on", "nopass"}, nil
	}
	c.Fields("flags", func() { c.TextSet(flags) }, "passwords", passwords, "commands", "+@all", "keys", "~*", "channels", "&*", "selectors", []string{})
}
