package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"time"

	"limitdb/limit"
	"limitdb/server/spec"
)

// Failed AUTH attempts cost time. The server answers the first ten from an address at once, and
// then one a second. It never delays the right password, whatever other clients at that
// address have done.
const (
	authPeriod  = int64(time.Second)
	authBurst   = 10
	authMaxWait = 8 * int64(time.Second)
)

// password returns the password that AUTH requires, "" for none.
func (srv *Server) password() string { return srv.set.RequirePass.Get() }

func (c *call) auth() {
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
	if c.login(user, pass) {
		c.OK()
	}
}

// login reports whether the password is right. If it is wrong, login has replied, or has
// parked the session until it is time to reply.
func (c *call) login(user, pass []byte) bool {
	want := c.srv.password()
	// Hashed first, so that the time of the comparison does not depend on the length.
	got, right := sha256.Sum256(pass), sha256.Sum256([]byte(want))
	same := subtle.ConstantTimeCompare(got[:], right[:]) == 1
	if string(user) == "default" && (want == "" || same) {
		c.client.setAuthed(true)
		return true
	}
	c.srv.counters.authFailures.Add(1)
	c.srv.log.Info("AUTH failed", "addr", c.client.addr(), "user", logged(user))
	c.refuseLogin()
	return false
}

// refuseLogin replies to a wrong password when it is the address's turn. If the client would
// wait too long, or too many clients wait already, refuseLogin closes it at once.
func (c *call) refuseLogin() {
	var d limit.Decision
	err := c.srv.authLimiter.Reserve(c.Now, hostOf(c.client.conn.RemoteAddr()), &c.srv.authLimit, 1, authMaxWait, &d)
	switch {
	case err != nil:
		c.srv.log.Error("counting a failed AUTH", "err", err)
		c.Fail(errWrongPass)
	case d.Limited:
		c.turnAway()
	case d.Wait <= 0:
		c.Fail(errWrongPass)
	case !c.srv.authDelays.Add(c.client.conn, c.Now+d.Wait, max(1, c.srv.set.MaxClients.Get()/authShare)):
		c.turnAway()
	default:
		cmd, until := c.cmd, c.Now+d.Wait
		c.client.park(func() bool {
			if c.Now < until {
				return false
			}
			c.client.stripe.Fail(cmd.ID)
			c.Fail(errWrongPass)
			return true
		})
	}
}

func (c *call) turnAway() {
	c.Fail(errTooManyAuth)
	c.client.life.Drain(errGuesses)
}

// authShare bounds the clients that wait for the reply to a wrong password: one in authShare of maxclients.
const authShare = 8

// hostOf returns the name under which failed AUTH attempts are counted: the IPv4 address, the
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
