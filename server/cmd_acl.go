package server

import "strings"

// ACL: there is one user, called default, who may do everything.
func aclCommands() []command {
	sub := func(name string, arity int, f flags, summary string, run func(*session, [][]byte), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f | flagLoading | flagStale, group: "server", since: "1.0.0",
			complexity: "O(1)", summary: summary, args: args, run: run,
		}
	}
	user := argument{name: "username", kind: "string"}
	return []command{{
		name: "ACL", arity: -2, group: "server", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "A container for commands about users. There is one, called default, who may do everything.",
		subs: []command{
			sub("WHOAMI", 2, 0, "Replies default, the only user.", func(s *session, _ [][]byte) { s.text("default") }),
			sub("USERS", 2, flagAdmin, "Lists the users.", func(s *session, _ [][]byte) { s.texts([]string{"default"}) }),
			sub("LIST", 2, flagAdmin, "Describes the users.", func(s *session, _ [][]byte) {
				s.texts([]string{"user default on " + s.srv.passwordRule() + " ~* &* +@all"})
			}),
			sub("GETUSER", 3, flagAdmin, "Describes a user, or replies null.", (*session).aclGetUser, user),
			sub("CAT", -2, 0, "Lists the categories of commands, or the commands of a category.", (*session).aclCat,
				argument{name: "category", kind: "string", optional: true}),
			sub("LOG", -2, flagAdmin, "Replies an empty list: nobody is ever refused a command.", func(s *session, args [][]byte) {
				if len(args) == 3 && foldEqual(args[2], "RESET") {
					s.ok()
					return
				}
				s.array(0)
			}, argument{name: "count-or-reset", kind: "string", optional: true}),
			sub("HELP", 2, 0, "Lists the subcommands.", (*session).help),
		},
	}}
}

// passwordRule is the user's password in ACL's notation. Redis shows a hash
// here, from which a weak password can be found.
func (srv *Server) passwordRule() string {
	if srv.password() == "" {
		return "nopass"
	}
	return "#" + redactedText
}

func (s *session) aclGetUser(args [][]byte) {
	if string(args[2]) != "default" {
		s.null()
		return
	}
	s.mapOf(6)
	s.text("flags")
	if s.srv.password() == "" {
		s.set(2)
		s.text("on")
		s.text("nopass")
	} else {
		s.set(1)
		s.text("on")
	}
	s.text("passwords")
	if s.srv.password() == "" {
		s.array(0)
	} else {
		s.texts([]string{redactedText})
	}
	for _, rule := range [...][2]string{{"commands", "+@all"}, {"keys", "~*"}, {"channels", "&*"}} {
		s.text(rule[0])
		s.text(rule[1])
	}
	s.text("selectors")
	s.array(0)
}

func (s *session) aclCat(args [][]byte) {
	if len(args) > 3 {
		s.fail(errSyntax)
		return
	}
	if len(args) == 3 {
		names := s.srv.table.names(func(c *command) bool { return c.inCategory(args[2]) })
		if len(names) == 0 {
			s.fail("ERR Unknown category '" + plainCut(args[2]) + "'")
			return
		}
		s.texts(names)
		return
	}
	var list []string
	seen := make(map[string]bool)
	for _, c := range s.srv.table.all {
		for _, cat := range c.categories() {
			if !seen[cat] {
				seen[cat] = true
				list = append(list, strings.TrimPrefix(cat, "@"))
			}
		}
	}
	s.texts(list)
}
