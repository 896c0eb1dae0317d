package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"sync"
	"time"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// Guesses of the password cost time. The server compares the first ten passwords from an address at
// once, and then one a second. An address from which the right one has come lately does not wait for
// the comparison, only for the reply to a wrong one: a broken client there must not lock out the others.
const (
	authPeriod  = int64(time.Second)
	authBurst   = 10
	authMaxWait = 8 * int64(time.Second)
)

// password returns the password that AUTH requires, "" for none.
func (srv *Server) password() string { return srv.set.RequirePass.Get() }

func authCommand(c *call) {
	if len(c.Args) > 3 {
		c.Fail(spec.ErrSyntax)
		return
	}
	user, pass := []byte("default"), c.Args[len(c.Args)-1]
	if len(c.Args) == 3 {
		user = c.Args[1]
	}
	if len(c.Args) == 2 && c.srv.password() == "" {
		c.Fail(errNoPassword)
		return
	}
	c.login(user, pass, c.OK)
}

// attempt is what a client has given to authenticate. It outlives the command's arguments.
type attempt struct {
	user  string // for the log
	known bool   // the server has a user of that name
	hash  [sha256.Size]byte
}

// right reports whether the attempt has the password. It compares hashes, so that the time does not depend on
// the length.
func (srv *Server) right(a *attempt) bool {
	want := srv.password()
	hash := sha256.Sum256([]byte(want))
	same := subtle.ConstantTimeCompare(a.hash[:], hash[:]) == 1
	return a.known && (want == "" || same)
}

// login compares a password and, if it is right, calls then, which replies. If it is wrong, login has
// replied. Either may happen later, when it is the address's turn: until then the session is parked.
func (c *call) login(user, pass []byte, then func()) {
	srv := c.srv
	a := &attempt{logged(user), string(user) == "default", sha256.Sum256(pass)}
	if srv.password() != "" && string(user) == srv.password() {
		a.user = redactedText // it is in the wrong place
	}
	host := hostOf(c.client.conn.RemoteAddr())
	compared := srv.authKnown.has(host, c.Now) || srv.password() == ""
	if compared && c.enter(a, then) {
		return
	}
	wait, ok := c.takeTurn(host)
	switch {
	case !ok:
		if !compared {
			srv.counters.authFailures.Add(1)
			srv.log.Info("AUTH refused: too many attempts from its address", "addr", c.client.pub.Addr(), "user", a.user)
		}
		c.Fail(errTooManyAuth)
		c.client.life.Drain(clients.ErrGuesses)
	case wait <= 0:
		if compared || !c.enter(a, then) {
			c.Fail(errWrongPass)
		}
	default:
		c.client.park(&guess{c, c.cmd, a, c.Now + wait, compared, then})
	}
}

// A guess is an attempt whose answer waits for its turn.
type guess struct {
	*call
	of       *command
	a        *attempt
	until    int64
	compared bool
	then     func()
}

func (g *guess) resume(s *session) bool {
	if g.Now < g.until {
		return false
	}
	if g.compared || !g.enter(g.a, g.then) {
		s.stripe.Fail(g.of.ID)
		g.Fail(errWrongPass)
	}
	return true
}

// enter authenticates the client and calls then if the password is right, and reports whether it is.
func (c *call) enter(a *attempt, then func()) bool {
	if !c.srv.right(a) {
		c.srv.counters.authFailures.Add(1)
		c.srv.log.Info("AUTH failed", "addr", c.client.pub.Addr(), "user", a.user)
		return false
	}
	if c.srv.password() != "" {
		c.srv.authKnown.add(c.client, c.Now)
	}
	c.client.setAuthed(true)
	then()
	return true
}

// takeTurn returns how long an attempt from an address waits for its turn. It returns false if that
// is too long, or if too many clients wait already.
func (c *call) takeTurn(host []byte) (wait int64, ok bool) {
	var d limit.Decision
	if err := c.srv.authLimiter.Reserve(c.Now, host, &c.srv.authLimit, 1, authMaxWait, &d); err != nil {
		c.srv.log.Error("counting an AUTH attempt", "err", err)
		return 0, false
	}
	if d.Limited {
		return 0, false
	}
	return d.Wait, d.Wait <= 0 || c.srv.authDelays.Add(c.client.conn, c.Now+d.Wait, max(1, c.srv.set.MaxClients.Get()/authShare))
}

// authShare bounds the clients that wait for their turn: one in authShare of maxclients.
const authShare = 8

// hostOf returns the name under which AUTH attempts are counted: the IPv4 address, the
// /64 network of an IPv6 address, since one machine may have all of it, or the word local.
func hostOf(remote net.Addr) []byte {
	a, ok := remote.(*net.TCPAddr)
	switch {
	case !ok:
		return []byte("local")
	case a.IP.To4() != nil:
		return a.IP.To4()
	}
	return a.IP.Mask(net.CIDRMask(64, 128))
}

// knownHosts has the addresses from which the right password has come lately: while a client that has given it is
// connected, and for an hour after that. Only who has the password can add one.
type knownHosts struct {
	mu   sync.Mutex // guards all below
	all  map[string]knownHost
	next int // the length of all at which the old ones are dropped
}

type knownHost struct {
	clients int   // that have given the password and are connected
	last    int64 // when the last one gave it, or left
}

// knownFor is how long an address remains known, in ns, after the last client there has left.
const knownFor = int64(time.Hour)

func (h knownHost) valid(now int64) bool { return h.clients > 0 || now-h.last < knownFor }

// has reports whether an address is known at now.
func (k *knownHosts) has(host []byte, now int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, ok := k.all[string(host)]
	return ok && h.valid(now)
}

// add notes that s has given the right password.
func (k *knownHosts) add(s *session, now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]knownHost{}
	}
	if len(k.all) >= max(k.next, 64) {
		for host, h := range k.all {
			if !h.valid(now) {
				delete(k.all, host)
			}
		}
		k.next = 2 * len(k.all)
	}
	host := string(hostOf(s.conn.RemoteAddr()))
	h := k.all[host]
	if !s.knows {
		s.knows = true
		h.clients++
	}
	h.last = now
	k.all[host] = h
}

// leave notes that s is gone.
func (k *knownHosts) leave(s *session, now int64) {
	if !s.knows {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	host := string(hostOf(s.conn.RemoteAddr()))
	h := k.all[host]
	h.clients--
	h.last = now
	k.all[host] = h
}

// ACL: there is one user, called default, who may do everything.
func aclRows() []row {
	sub := handler.Rows[call]("server", "O(1)", spec.Loading|spec.Stale)
	return []row{handler.Container("ACL", "server", "A container for commands about users. The only user, default, may do everything.",
		sub("WHOAMI", 2, 0, "Returns default, the only user.", func(c *call) { c.Text("default") }),
		sub("USERS", 2, spec.Admin, "Lists the users.", func(c *call) { c.Texts([]string{"default"}) }),
		sub("LIST", 2, spec.Admin, "Describes the users.", func(c *call) {
			c.Texts([]string{"user default on " + c.srv.passwordRule() + " ~* &* +@all"})
		}),
		sub("GETUSER", 3, spec.Admin, "Describes a user; null if there is none.", aclGetUser, spec.Text("username")),
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

func aclGetUser(c *call) {
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
