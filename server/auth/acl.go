package auth

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"limitdb/resp"
	"limitdb/server/cluster"
	"limitdb/server/handler"
	"limitdb/server/redact"
	"limitdb/server/spec"
	"limitdb/server/users"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

// Rows returns ACL, which shows and changes users. categories replies to ACL CAT, and replication names the node that leads. kept says that
// changes are kept with the data.
func (g *Guard) Rows(categories func(*call), replication *cluster.Replication, kept bool) []row {
	sub := handler.Rows[call]("server", "O(1)", spec.Loading|spec.Stale)
	change := handler.Rows[call]("server", "O(n) for n users", spec.Admin|spec.Client)
	changes := spec.Flags(0)
	if kept {
		changes = spec.Lead | spec.Quorum // the node that leads keeps them
	}
	name := spec.Text("username")
	whole := []spec.Argument{name, spec.Text("command"), spec.Optional(spec.Several(spec.Text("arg")))}
	fail := func(c *call, err error) {
		if errors.Is(err, cluster.ErrNotLeading) {
			replication.Fail(c, err)
			return
		}
		c.Fail("ERR " + err.Error())
	}
	return []row{handler.Container("ACL", "server", "A container for commands about users and their rights.",
		sub("WHOAMI", 2, 0, "Returns the name of the user that the connection is.", func(c *call) { c.Text(c.UserName()) }),
		sub("USERS", 2, spec.Admin, "Lists the names of the users.", func(c *call) { c.Texts(g.Names()) }),
		sub("LIST", 2, spec.Admin, "Lists the users with their rules, as in an ACL file.", g.list),
		sub("GETUSER", 3, spec.Admin, "Describes a user; null if there is none.", g.user, name),
		change("SETUSER", -3, changes, "Makes a user, or changes one, by rules.", func(c *call) { g.setUser(c, fail) }, name, spec.Optional(spec.Several(spec.Text("rule")))),
		change("DELUSER", -3, changes, "Deletes users and closes their connections; returns how many there were.", func(c *call) {
			n, err := g.delete(c.Client, texts(c.Args[2:]))
			if err != nil {
				fail(c, err)
				return
			}
			c.Int(int64(n))
		}, spec.Several(name)),
		sub("CAT", -2, 0, "Lists the categories of commands, or the commands of a category.", categories,
			spec.Optional(spec.Text("category"))),
		sub("DRYRUN", -4, spec.Admin, "Says whether a user may run a command, without running it.", g.dryRun, whole...),
		sub("GENPASS", -2, 0, "Returns a random password of 256 bits, or of as many.", genPass, spec.Optional(spec.Integer("bits"))),
		sub("LOG", -2, spec.Admin, "Shows what users were denied last, 10 entries by default, or forgets it.", g.showLog, spec.Optional(spec.Text("count-or-reset"))),
		change("SAVE", 2, 0, "Writes the users to the ACL file.", func(c *call) { g.inBackground(c, g.save) }),
		change("LOAD", 2, 0, "Reads the users from the ACL file again.", func(c *call) {
			who := c.Client
			g.inBackground(c, func() error { return g.reload(who) })
		}),
	)}
}

// inBackground runs what uses the ACL file, and replies with OK or the error.
func (g *Guard) inBackground(c *call, work func() error) {
	if g.Write == nil {
		c.Fail("ERR " + errNoFile.Error())
		return
	}
	c.Client.Background(work, func(err error) {
		if err != nil {
			c.Fail("ERR " + strings.ReplaceAll(err.Error(), "\n", "; "))
			return
		}
		c.OK()
	})
}

func texts(args [][]byte) []string {
	all := make([]string, len(args))
	for i, a := range args {
		all[i] = string(a)
	}
	return all
}

// shown returns the flags and the hashes of the passwords of a user, as far as they may be shown: requirepass is a password of default, and not
// even its hash is shown.
func (g *Guard) shown(r *users.Rights) (flags, passwords []string) {
	flags, passwords = r.Flags(), r.Passwords()
	if r.Name == users.Default && g.Settings.RequirePass.Get() != "" {
		flags = slices.DeleteFunc(flags, func(f string) bool { return f == "nopass" })
		passwords = append(passwords, redact.Text)
	}
	return flags, passwords
}

// Line returns the line of a user as ACL LIST shows it, but without the hashes of passwords; "" if there is none.
func (g *Guard) Line(name string) string {
	r := g.Get(name)
	if r == nil {
		return ""
	}
	flags, passwords := g.shown(r)
	for i := range passwords {
		passwords[i] = redact.Text
	}
	return "user " + r.Line(flags, passwords)
}

func (g *Guard) list(c *call) {
	names := g.Names()
	lines := make([]string, 0, len(names))
	for _, name := range names {
		if r := g.Get(name); r != nil {
			lines = append(lines, "user "+r.Line(g.shown(r)))
		}
	}
	c.Texts(lines)
}

func (g *Guard) user(c *call) {
	r := g.Get(string(c.Args[2]))
	if r == nil {
		c.Null()
		return
	}
	flags, passwords := g.shown(r)
	c.Fields("flags", func() { c.TextSet(flags) }, "passwords", passwords, "commands", r.Commands(), "keys", r.Keys(), "channels", r.Channels(), "selectors", []string{})
}

func (g *Guard) setUser(c *call, fail func(*call, error)) {
	name := string(c.Args[2])
	if problem := users.NameProblem(name); problem != "" {
		c.Fail("ERR " + problem)
		return
	}
	if err := g.set(c.Client, name, texts(c.Args[3:])); err != nil {
		fail(c, err)
		return
	}
	c.OK()
}

func (g *Guard) dryRun(c *call) {
	r := g.Get(string(c.Args[2]))
	if r == nil {
		c.Fail("ERR User '" + resp.Excerpt(c.Args[2]) + "' not found")
		return
	}
	words := c.Args[3:]
	cmd := g.Catalog.Find(words[0])
	if cmd != nil && len(cmd.Subs) > 0 && len(words) > 1 {
		if sub := cmd.Sub(words[1]); sub != nil {
			cmd = sub
		}
	}
	switch {
	case cmd == nil:
		c.Fail("ERR Command '" + resp.Excerpt(words[0]) + "' not found")
		return
	case !cmd.ArityOK(len(words)):
		c.Fail("ERR wrong number of arguments for '" + cmd.Full + "' command")
		return
	}
	if d := r.Check(cmd, words); d.Reason != users.Allowed {
		c.Text(d.Dry())
		return
	}
	c.OK()
}

// mostBits is the most bits of a password that GENPASS makes.
const mostBits = 4096

func genPass(c *call) {
	bits := int64(256)
	if len(c.Args) > 3 {
		c.Fail(c.Command.WrongArity())
		return
	}
	if len(c.Args) == 3 {
		var ok bool
		if bits, ok = resp.ParseInt(c.Args[2]); !ok {
			c.Fail(spec.ErrNotInt)
			return
		}
		if bits < 1 || bits > mostBits {
			c.Fail("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096")
			return
		}
	}
	digits := (bits + 3) / 4
	b := make([]byte, (digits+1)/2)
	_, _ = rand.Read(b) // it never fails
	c.Text(hex.EncodeToString(b)[:digits])
}

func (g *Guard) showLog(c *call) {
	n := int64(10)
	switch {
	case len(c.Args) > 3:
		c.Fail(c.Command.WrongArity())
		return
	case len(c.Args) == 3 && resp.EqualFold(c.Args[2], "RESET"):
		g.Log.reset()
		c.OK()
		return
	case len(c.Args) == 3:
		var ok bool
		if n, ok = resp.ParseInt(c.Args[2]); !ok {
			c.Fail(spec.ErrNotInt)
			return
		}
		n = max(n, 0)
	}
	entries := g.Log.last(n)
	c.Array(len(entries))
	for i := range entries {
		entries[i].reply(c)
	}
}
