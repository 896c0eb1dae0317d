package observe

import (
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Guesses bounds how many wrong passwords an address may send: ten at once, then one a second. While an address has none
// left, none of its passwords is looked at, so a refusal does not say whether one was right. A network of 64 bits
// counts as one IPv6 address. The zero value is ready, and several goroutines may use it.
type Guesses struct {
	mu    sync.Mutex                 // guards until
	until map[netip.Prefix]time.Time // when an address has all guesses again
}

const (
	guessPeriod    = time.Second
	guessBurst     = 10
	guessAddresses = 10_000 // that are remembered
)

// TooManyGuesses is the text of a refusal.
const TooManyGuesses = "too many wrong passwords from this address: try again later"

// Wait returns in how many seconds the address of a request has a guess left: 0 if it has one now.
func (g *Guesses) Wait(r *http.Request, now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	debt := max(g.until[addressOf(r)].Sub(now), 0)
	return int((max(debt-(guessBurst-1)*guessPeriod, 0) + time.Second - 1) / time.Second)
}

// Wrong counts a wrong password that a request had at now.
func (g *Guesses) Wrong(r *http.Request, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.until) >= guessAddresses {
		maps.DeleteFunc(g.until, func(_ netip.Prefix, until time.Time) bool { return !until.After(now) })
	}
	if g.until == nil || len(g.until) >= guessAddresses {
		g.until = make(map[netip.Prefix]time.Time)
	}
	a, from := addressOf(r), now
	if until := g.until[a]; until.After(now) {
		from = until
	}
	g.until[a] = from.Add(guessPeriod)
}

// addressOf returns the address that a request comes from, or its network.
func addressOf(r *http.Request) netip.Prefix {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	ip := a.Addr().Unmap()
	net, _ := ip.Prefix(min(ip.BitLen(), 64)) // it fails for no address
	return net
}
