// Package auth has the users in force and guards their passwords: it compares them, makes guesses cost time, and has ACL, which shows and
// changes users. It knows no session.
package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"sync"
	"time"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/users"
	"limitdb/server/waiters"
)

// Guesses of the password cost time. The guard lets the first ten passwords from an address be compared at once, and then one a second.
// An address from which the right one has come lately does not wait for the comparison, only for the reply to a wrong one: a broken
// client there must not lock out the others.
const (
	Period  = int64(time.Second)     // of one attempt more, in ns
	Burst   = 10                     // attempts at once
	MaxWait = 8 * int64(time.Second) // of an attempt for its turn, in ns
)

// Guard guards the passwords of users. Any goroutine may call its methods.
type Guard struct {
	Users
	Log      Log
	attempts *engine.Engine // by address
	limit    limit.Limit
	// Delayed has the clients that wait for their turn to be answered.
	Delayed waiters.Set

	mu    sync.Mutex // guards all below
	hosts map[string]host
	next  int // the length of hosts at which the old ones are dropped
}

// host is an address from which the right password has come lately: while a client that has given it is connected, and for an hour after
// that. Only who has the password can add one.
type host struct {
	clients int   // that have given the password and are connected
	last    int64 // when the last one gave it, or left
}

// knownFor is how long an address remains known, in ns, after the last client there has left.
const knownFor = int64(time.Hour)

func (h host) known(now int64) bool { return h.clients > 0 || now-h.last < knownFor }

// New returns a guard of the users that come from a source, and of the password in the settings.
func New(settings *config.Settings, from Source) *Guard {
	g := &Guard{
		Users:    Users{Settings: settings, Source: from},
		Log:      Log{Settings: settings},
		attempts: engine.New(engine.Options{Shards: 4}),
		// A reservation is paid for later, so Burst + 1 attempts are granted at once.
		limit: limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: Period, Burst: Burst - 1},
		hosts: map[string]host{},
	}
	g.init()
	return g
}

// Attempt is what a client has given to authenticate. It outlives the arguments of the client's command.
type Attempt struct {
	user string
	hash [sha256.Size]byte
}

// NewAttempt returns the attempt to authenticate by a name and a password.
func NewAttempt(user, pass []byte) *Attempt {
	return &Attempt{string(user), sha256.Sum256(pass)}
}

// Right returns the rights of the user if the attempt has its password, and otherwise nil. It compares hashes, so that the time does not depend on
// the length.
func (g *Guard) Right(a *Attempt) *users.Rights { return g.right(a) }

// bytesEqual reports whether two hashes are the same, in a time that does not depend on where they differ.
func bytesEqual(a, b *[sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

// Turn returns for how many ns an attempt from an address waits for its turn at now; w is woken then. It returns false if that is too
// long, or if too many wait already.
func (g *Guard) Turn(now int64, from net.Addr, w waiters.Waiter) (wait int64, ok bool) {
	if wait, ok = g.reserve(now, from, MaxWait); wait > 0 {
		ok = g.Delayed.Add(w, now+wait, max(1, g.Settings.MaxClients.Get()/share))
	}
	return wait, ok
}

// TurnNow reports whether an attempt from an address may be compared now. If not, it has no turn later either.
func (g *Guard) TurnNow(now int64, from net.Addr) bool {
	_, ok := g.reserve(now, from, 0)
	return ok
}

// reserve takes a turn that is at most that many ns away.
func (g *Guard) reserve(now int64, from net.Addr, most int64) (wait int64, ok bool) {
	var d limit.Decision
	host := hostOf(from)
	err := g.attempts.UpdateAt(0, now, [][]byte{host}, func(t *engine.Txn) error { return t.Reserve(host, &g.limit, 1, most, &d) })
	if err != nil || d.Limited {
		return 0, false
	}
	return max(0, d.Wait), true
}

// share bounds the clients that wait for their turn: one in share of maxclients.
const share = 8

// Sweep forgets attempts that no longer count.
func (g *Guard) Sweep(now int64) { g.attempts.Sweep(now, 100) }

// hostOf returns the name under which attempts are counted: the IPv4 address, the /64 network of an IPv6 address, since one machine may
// have all of it, or the word local.
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

// Knows reports whether the right password has come lately from an address.
func (g *Guard) Knows(from net.Addr, now int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	h, ok := g.hosts[string(hostOf(from))]
	return ok && h.known(now)
}

// Known returns the number of addresses that Knows may know.
func (g *Guard) Known() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.hosts)
}

// Enter notes that a client has given the right password, and whether it did before.
func (g *Guard) Enter(from net.Addr, now int64, again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.hosts) >= max(g.next, 64) {
		for name, h := range g.hosts {
			if !h.known(now) {
				delete(g.hosts, name)
			}
		}
		g.next = 2 * len(g.hosts)
	}
	name := string(hostOf(from))
	h := g.hosts[name]
	if !again {
		h.clients++
	}
	h.last = now
	g.hosts[name] = h
}

// Leave notes that a client is gone, w, and whether it had entered.
func (g *Guard) Leave(from net.Addr, now int64, w waiters.Waiter, entered bool) {
	g.Delayed.Remove(w)
	if !entered {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name := string(hostOf(from))
	h := g.hosts[name]
	h.clients--
	h.last = now
	g.hosts[name] = h
}
