package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"sync"
	"time"

	"limitdb/limit"
)

// Failed AUTH attempts cost time. The first ten of an address are answered at once,
// those after them one a second, by address. The right password is never delayed: it
// passes whatever others at its address have done.
const (
	authPeriod  = int64(time.Second)
	authBurst   = 10
	authMaxWait = 8 * int64(time.Second)
)

// password is what AUTH must be given; empty: none.
func (srv *Server) password() string { return srv.set.RequirePass.Get() }

func (s *session) auth(args [][]byte) {
	if len(args) > 3 {
		s.fail(errSyntax)
		return
	}
	user, pass := []byte("default"), args[len(args)-1]
	if len(args) == 3 {
		user = args[1]
	}
	if len(args) == 2 && s.srv.password() == "" {
		s.fail(errNoPassword)
		return
	}
	if s.login(user, pass) {
		s.ok()
	}
}

// login reports whether the password is right. If it is wrong, login has replied, or
// has parked the session until it is time to.
func (s *session) login(user, pass []byte) bool {
	want := s.srv.password()
	// Hashed first, so that the time of the comparison does not depend on the length.
	got, right := sha256.Sum256(pass), sha256.Sum256([]byte(want))
	same := subtle.ConstantTimeCompare(got[:], right[:]) == 1
	if string(user) == "default" && (want == "" || same) {
		s.setAuthed(true)
		return true
	}
	s.srv.counters.authFailures.Add(1)
	s.srv.log.Info("AUTH failed", "addr", s.addr(), "user", logged(user))
	s.refuseLogin()
	return false
}

// refuseLogin answers a wrong password when it is the address's turn. A client that would
// wait too long, or for which there is no place to wait, is closed at once.
func (s *session) refuseLogin() {
	var d limit.Decision
	err := s.srv.authLimiter.Reserve(s.now, hostOf(s.conn.RemoteAddr()), &s.srv.authLimit, 1, authMaxWait, &d)
	switch {
	case err != nil:
		s.srv.log.Error("counting a failed AUTH", "err", err)
		s.fail(errWrongPass)
	case d.Limited:
		s.turnAway()
	case d.Wait <= 0:
		s.fail(errWrongPass)
	case !s.srv.authDelays.add(s, s.now+d.Wait, s.srv.set.MaxClients.Get()/authShare):
		s.turnAway()
	default:
		cmd, until := s.pub.lastCmd.Load(), s.now+d.Wait
		s.park(func() bool {
			if s.now < until {
				return false
			}
			s.stripe.commands[cmd.id].failed.Add(1)
			s.fail(errWrongPass)
			return true
		})
	}
}

func (s *session) turnAway() {
	s.fail(errTooManyAuth)
	s.closeAfterReply(errGuesses)
}

// authShare is the part of maxclients, one in so many, that may wait for the reply to a wrong password.
const authShare = 8

// authDelays are the sessions that wait for the reply to a wrong password.
type authDelays struct {
	mu    sync.Mutex         // guards until
	until map[*session]int64 // ns of Unix time
}

func (a *authDelays) init() { a.until = make(map[*session]int64) }

// add has s woken at a time. It returns false if most wait already.
func (a *authDelays) add(s *session, until, most int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if int64(len(a.until)) >= max(1, most) {
		return false
	}
	a.until[s] = until
	return true
}

// release wakes the sessions that have waited long enough.
func (a *authDelays) release(now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s, until := range a.until {
		if now >= until {
			delete(a.until, s)
			s.conn.Wake()
		}
	}
}

func (a *authDelays) remove(s *session) {
	a.mu.Lock()
	delete(a.until, s)
	a.mu.Unlock()
}

// hostOf is what failed AUTH attempts are counted by: the IPv4 address, the /64 network of
// an IPv6 address, which one machine has all of, or the word local.
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
