package auth

import (
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/redact"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

// Rows returns ACL: there is one user, called default, who may do everything. categories replies to ACL CAT.
func (g *Guard) Rows(categories func(*call)) []row {
	sub := handler.Rows[call]("server", "O(1)", spec.Loading|spec.Stale)
	return []row{handler.Container("ACL", "server", "A container for commands about users. The only user, default, may do everything.",
		sub("WHOAMI", 2, 0, "Returns default, the only user.", func(c *call) { c.Text(User) }),
		sub("USERS", 2, spec.Admin, "Lists the users.", func(c *call) { c.Texts([]string{User}) }),
		sub("LIST", 2, spec.Admin, "Describes the users.", g.list),
		sub("GETUSER", 3, spec.Admin, "Describes a user; null if there is none.", g.user, spec.Text("username")),
		sub("CAT", -2, 0, "Lists the categories of commands, or the commands of a category.", categories,
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

// list describes the user in ACL notation. Redis shows a hash of the password, from which an attacker can find a weak one.
func (g *Guard) list(c *call) {
	password := "#" + redact.Text
	if g.Open() {
		password = "nopass"
	}
	c.Texts([]string{"user default on " + password + " ~* &* +@all"})
}

func (g *Guard) user(c *call) {
	if string(c.Args[2]) != User {
		c.Null()
		return
	}
	flags, passwords := []string{"on"}, []string{redact.Text}
	if g.Open() {
		flags, passwords = []string{"on", "nopass"}, nil
	}
	c.Fields("flags", func() { c.TextSet(flags) }, "passwords", passwords, "commands", "+@all", "keys", "~*", "channels", "&*", "selectors", []string{})
}
