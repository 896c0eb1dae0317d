// Package guests has the clients of ports that speak another protocol than RESP and keep connections open, such as gRPC. They count among
// maxclients and maxmemory-clients, CLIENT LIST shows them and CLIENT KILL closes them, and the password is asked of them as of others.
package guests

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"limitdb/config"
	"limitdb/internal/clock"
	"limitdb/server/auth"
	"limitdb/server/clients"
	"limitdb/server/pubsub"
	"limitdb/server/users"
	"limitdb/transport"
)

// A Door lets guests in. Its owner sets all fields.
type Door struct {
	Settings *config.Settings
	Clients  *clients.Set
	Auth     *auth.Guard
	Clock    clock.Clock
	Log      *slog.Logger
	Stopping *atomic.Bool
	// As returns a context in which commands from an address have these rights; nil: those of default.
	As func(r *users.Rights, addr string) context.Context
	// Certified returns the rights of the user that a client is by the name in its certificate, nil if there is none.
	Certified func(name string) *users.Rights
	// Connections, Rejected and Failures count connections, those above maxclients, and wrong passwords.
	Connections, Rejected, Failures *atomic.Uint64
}

// The errors of May.
var (
	ErrNoPassword = errors.New("a password is required: send the metadata authorization, Basic with the user and the password, or Bearer with the password")
	ErrWrong      = errors.New("the user or the password is wrong")
	ErrGuesses    = errors.New("too many wrong passwords from this address: try again later")
	ErrProtected  = errors.New("in protected mode without a password, only this machine is served: set requirepass-file, or protected-mode no")
)

// A Guest is a client whose connection speaks another protocol. Any goroutine may call its methods.
type Guest struct {
	door   *Door
	client clients.Client
	knows  atomic.Pointer[auth.Attempt] // what it has given that was right; nil: nothing
	name   atomic.Pointer[string]       // in its certificate; nil: it has none
	last   atomic.Pointer[caller]       // of the last call
}

// caller is who has made a call.
type caller struct {
	rights *users.Rights
	as     context.Context
}

// Certified notes the name in the certificate that the guest has presented and that was verified.
func (g *Guest) Certified(name string) { g.name.Store(&name) }

// Enter lets a connection in, or returns why not. The guest then calls Leave once, when its connection is closed.
func (d *Door) Enter(c transport.Conn) (*Guest, error) {
	d.Connections.Add(1)
	g := &Guest{door: d}
	if d.Stopping.Load() {
		return nil, clients.ErrStopped
	}
	d.Clients.Init(&g.client, c, d.Clock.Now())
	g.client.Subs = new(pubsub.Subscriptions)
	g.client.Authed.Store(d.Auth.Open() && !g.protected())
	oldest, ok := d.Clients.Add(&g.client)
	if !ok {
		d.Rejected.Add(1)
		return nil, clients.ErrRefused
	}
	if oldest != nil {
		d.Log.Log(context.Background(), clients.LevelVerbose, "client closed", "id", oldest.ID, "addr", oldest.Addr(), "reason", clients.ErrGaveWay)
		oldest.Conn.Close(clients.ErrGaveWay)
	}
	return g, nil
}

// Leave forgets the guest, whose connection is closed for a reason.
func (g *Guest) Leave(reason error) {
	if g.door.Clients.Remove(&g.client, reason) {
		g.door.Auth.Leave(g.client.Conn.RemoteAddr(), g.door.Clock.Now(), g.client.Conn, g.knows.Load() != nil)
	}
}

// protected reports whether protected mode refuses the guest.
func (g *Guest) protected() bool {
	return g.door.Settings.ProtectedMode.Get() && !clients.IsLocal(g.client.Conn.RemoteAddr())
}

// May returns a context in which commands have the rights of whoever gives this name and this password, or why there are none. Without a
// password, given is false: the guest is then the user whose name its certificate has or, if there is none, the user default.
func (g *Guest) May(user, password []byte, given bool) (context.Context, error) {
	d := g.door
	if name := g.name.Load(); !given && name != nil {
		if r := d.Certified(*name); r != nil {
			g.enter(nil)
			return g.as(r), nil
		}
	}
	open := d.Auth.Open()
	if open && g.protected() {
		return nil, ErrProtected
	}
	if !given && open {
		g.enter(nil)
		return g.as(d.Auth.Default()), nil
	}
	if !given {
		return nil, ErrNoPassword
	}
	a := auth.NewAttempt(user, password)
	if known := g.knows.Load(); known != nil && *known == *a {
		if r := d.Auth.Right(a); r != nil {
			return g.as(r), nil
		}
	}
	r, err := g.guess(a)
	if err != nil {
		return nil, err
	}
	return g.as(r), nil
}

// as returns a context in which commands of the guest have these rights. CLIENT LIST shows whose they are, and the guest is closed if that
// user is deleted.
func (g *Guest) as(r *users.Rights) context.Context {
	last := g.last.Load()
	if last == nil || last.rights != r {
		last = &caller{r, g.door.As(r, g.client.Addr())}
		g.last.Store(last)
		g.client.User.Store(r)
	}
	return last.as
}

// guess is May for a password that was not right before. Wrong ones cost time, as those of AUTH do.
func (g *Guest) guess(a *auth.Attempt) (*users.Rights, error) {
	d, from, now := g.door, g.client.Conn.RemoteAddr(), g.door.Clock.Now()
	known := d.Auth.Knows(from, now)
	if !known && !d.Auth.TurnNow(now, from) {
		return nil, ErrGuesses
	}
	if r := d.Auth.Right(a); r != nil {
		g.enter(a)
		return r, nil
	}
	d.Failures.Add(1)
	if known && !d.Auth.TurnNow(now, from) {
		return nil, ErrGuesses
	}
	return nil, ErrWrong
}

// enter notes that the guest may decide; a is what it has given.
func (g *Guest) enter(a *auth.Attempt) {
	if a != nil {
		g.door.Auth.Enter(g.client.Conn.RemoteAddr(), g.door.Clock.Now(), g.knows.Swap(a) != nil)
	}
	if !g.client.Authed.Load() {
		g.door.Clients.Authenticated(&g.client, true)
	}
}

// Begins notes that a call begins, and returns the time.
func (g *Guest) Begins() (now int64) {
	now = g.door.Clock.Now()
	g.client.LastActive.Store(now)
	return now
}

// Waits notes since when a call is not whole, 0 if all are: after command-timeout the guest is closed.
func (g *Guest) Waits(since int64) { g.client.PartialSince.Store(since) }

// Holds notes how many bytes of calls the server holds for the guest: they count for maxmemory-clients.
func (g *Guest) Holds(bytes int64) {
	g.client.QueryMemory.Store(bytes)
	g.client.Charge()
}
