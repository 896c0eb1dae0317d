// Package server speaks RESP to clients. It has the sessions, the gate that decides which command may run, deadlines,
// statistics, and in cmd_*.go the commands that concern connections and the server as a whole. The packages below it have
// the other commands; they know no session. Package transport handles the sockets, and package engine makes the decisions.
package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/internal/decisionlog"
	"limitdb/internal/origin"
	"limitdb/internal/pulse"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/script"
	"limitdb/server/audit"
	"limitdb/server/auth"
	"limitdb/server/backups"
	"limitdb/server/clients"
	"limitdb/server/cluster"
	"limitdb/server/crossing"
	"limitdb/server/durable"
	"limitdb/server/forward"
	"limitdb/server/group"
	"limitdb/server/guests"
	"limitdb/server/handler"
	"limitdb/server/history"
	"limitdb/server/latency"
	"limitdb/server/memory"
	"limitdb/server/monitor"
	"limitdb/server/pause"
	"limitdb/server/pubsub"
	"limitdb/server/redact"
	"limitdb/server/rulebook"
	"limitdb/server/scripts"
	"limitdb/server/slowlog"
	"limitdb/server/spec"
	"limitdb/server/users"
)

// redisVersion is the version of Redis whose replies clients may expect.
const redisVersion = "7.4.0"

// Options holds the parts of a server. A field must be set unless its comment says otherwise.
type Options struct {
	Settings *config.Settings
	Registry *config.Registry
	Engine   *engine.Engine
	Clock    Clock
	// Log receives messages for operators. If nil, the server logs nothing.
	Log *slog.Logger
	// Version is limitdb's own version, for INFO and HELLO.
	Version string
	// Shutdown is called once, in its own goroutine, when a client sends SHUTDOWN. If nil,
	// the server refuses SHUTDOWN.
	Shutdown func(now bool)
	// Durability keeps the state on disk. If nil, the state is in memory only.
	Durability *Durability
	// Replication keeps the state on several nodes. If nil, this node is alone.
	Replication *Replication
	// Groups are the groups among which the keys are divided: see package groups. The first has no keys, but the rules, the users and all
	// that the nodes share; Engine, Durability and Replication are its parts. If there are none, one group has everything.
	Groups []GroupOptions
	// Backups makes backups for clients. If nil, there is nothing to back up.
	Backups *backups.Source
	// Rules says where rules come from and where they are kept.
	Rules rulebook.Source
	// Users says where users come from and where they are kept.
	Users auth.Source
	// Audit has who changed what. If nil, nobody wants to know.
	Audit *audit.Log
	// Decisions logs decisions. If nil, none are logged.
	Decisions *decisionlog.Log
	// Memory is the most memory that the process may use, in bytes. If 0, only the machine's
	// memory bounds it.
	Memory int64
	// Ports returns the port that the server listens on, for INFO. If nil, INFO shows the
	// port of the settings.
	Ports func() (tcp int)
}

// GroupOptions holds the parts of a group of keys. All but Engine may be nil.
type GroupOptions struct {
	Engine      *engine.Engine
	Durability  *Durability
	Replication *Replication
}

// Of packages below, for the owner of a server.
type (
	// Clock is the clock of the process.
	Clock = group.Clock
	// Durability is the server's interface to the code that keeps its state on disk.
	Durability = durable.Source
	// Replication is the server's interface to the code that keeps its state on several nodes.
	Replication = cluster.Replication
	// Member is a node of the cluster.
	Member = cluster.Member
)

// ErrSnapshotting is returned by functions of Durability, ErrNotLeading and ErrNotYet by functions of Replication.
var (
	ErrSnapshotting = durable.ErrSnapshotting
	ErrNotLeading   = cluster.ErrNotLeading
	ErrNotYet       = cluster.ErrNotYet
)

// leaderWait is how long commands wait for a leader. An election takes 1 s, seldom 2.
const leaderWait = 3 * time.Second

// Server runs the commands of all sessions. Make it with New, give it to a
// transport as its Handler, and call Run.
type Server struct {
	parts    handler.Parts  // for the handlers of packages below
	group    *group.Group   // of all keys or, with several groups, the one that has the rest
	every    []*group.Group // all groups, by their numbers
	keyed    []*group.Group // those that have keys
	disturbs uint32         // the bits of group.Special with which commands do not run one after the other: see ahead.go
	set      *config.Settings
	registry *config.Registry
	clock    Clock
	log      *slog.Logger
	version  string
	opts     Options
	runID    string
	started  int64 // ns of Unix time

	table                   *commands
	counts                  *stats.Counters
	counters                counters
	crossings               across.Counters  // of requests that ask several groups
	returns                 crossing.Returns // what they have not given back yet
	slowlog                 slowlog.Log
	latency                 latency.Monitor
	history                 history.History
	lengths                 atomic.Uint32 // counts changes of the limits on client input, and of users
	monitors                monitor.Set
	pause                   pause.Pause
	clients                 *clients.Set
	buffers, queues, multis sync.Pool // of *[bufferSize]byte, *ahead, *multi
	rules                   *rulebook.Book
	scripts                 scripts.Cache
	bounds                  script.Bounds // of one run of a script
	wide                    func(name []byte) bool
	long                    func(name []byte) bool

	audited audit.Views

	auth     *auth.Guard
	accounts Accounts
	guests   guests.Door
	redact   redact.Redactor

	durable    *durable.Keeper // of group
	leaderless forward.Leaderless
	streams    forward.Streams        // for callers of Do
	lines      forward.Lines          // for requests that ask several groups
	misconf    atomic.Pointer[string] // the reply to commands refused under specialMisconf

	stopping atomic.Bool
	base     stats.Base // of the figures since CONFIG RESETSTAT
	pulses   pulses
	topics   pubsub.Topics
	memory   memory.Reading
	rates    stats.Rates
}

// httpAddr is what MONITOR and the log show as the address of Do's callers.
const httpAddr = "http"

// counters holds the counters that change rarely enough for all sessions to share them.
type counters struct {
	connections  atomic.Uint64 // accepted
	rejected     atomic.Uint64 // over maxclients
	denied       atomic.Uint64 // protected mode
	authFailures atomic.Uint64
	denials      [users.Auth]atomic.Uint64 // of commands, by what was lacking
	// forwarded counts commands that were sent to the leader, unknownOutcomes those that got no reply.
	forwarded, unknownOutcomes atomic.Uint64
	protocolErrors             atomic.Uint64
	crossProtocol              atomic.Uint64
	panics                     atomic.Uint64
	unknown                    atomic.Uint64 // unknown commands
}

// pulses are the pulses of the goroutines that Run starts for the server as a whole.
type pulses struct{ house, watch pulse.Pulse }

// Clients returns the number of connected clients.
func (srv *Server) Clients() int { return srv.clients.Len() }

// Accounts returns who the callers of Do may be.
func (srv *Server) Accounts() *Accounts { return &srv.accounts }

// Guests returns the door for clients of ports that speak another protocol.
func (srv *Server) Guests() *guests.Door { return &srv.guests }

// Rules returns the server's rules.
func (srv *Server) Rules() *rulebook.Book { return srv.rules }

// ReloadRules has reload read rules again, for the way that is given in the audit log. If that fails, the old rules stay in force.
func (srv *Server) ReloadRules(way string, reload func() error) error {
	const command = "rl.rules|reload"
	var ch *audit.Change
	if log := srv.opts.Audit; log != nil {
		var err error
		what := audit.What{From: new(origin.Origin), Way: way, Command: command, View: srv.audited.Of(command, nil)}
		if ch, err = log.Begin(srv.clock.Now(), &what); err != nil {
			return err
		}
	}
	err := reload()
	if ch != nil {
		result := "OK"
		if err != nil {
			result = resp.Excerpt([]byte(spec.Plain(err)))
		}
		ch.End(srv.clock.Now(), result)
	}
	return err
}

// MostUnsent returns the number of unsent bytes above which the transport stops reading from a client.
func (srv *Server) MostUnsent() int64 { return srv.clients.MostUnsent() }

// Reasons to check a command further, one bit each, so that one atomic load covers all of them.
const (
	specialMonitor uint32 = 1 << iota
	specialPause
	specialTimeEach // time every command individually, for a low slowlog threshold
	specialLoading  // the state is being loaded
	specialMisconf  // the log cannot be written

	specialFollowing = group.Following
)

// setSpecial sets a bit that is the server's.
func (srv *Server) setSpecial(bit uint32, on bool) {
	for _, g := range srv.every {
		g.Set(bit, on)
	}
}

// SetLoading sets whether the state is being loaded. While it is, the server refuses all but a
// few commands with -LOADING. Loading may set the clock, and the engine must not remember an
// earlier reading, so call SetLoading(true) before Run.
func (srv *Server) SetLoading(on bool) { srv.setSpecial(specialLoading, on) }

// SetRefusing makes the server refuse commands that write with -MISCONF, for the reason err.
// If err is nil, it accepts them again.
func (srv *Server) SetRefusing(err error) {
	if err != nil {
		text := "MISCONF limitdb cannot write its log and refuses commands that change something until it can (" + resp.Excerpt([]byte(spec.Plain(err))) + ")"
		srv.misconf.Store(&text)
	}
	srv.setSpecial(specialMisconf, err != nil)
	if err != nil {
		srv.clients.WakeWaiting()
	}
}

// Refusing reports whether commands that write are refused. See SetRefusing.
func (srv *Server) Refusing() bool { return srv.group.Special.Load()&specialMisconf != 0 }

// Group returns the group of all keys or, with several groups, the one that has the rules, the users and all that the nodes share.
func (srv *Server) Group() *group.Group { return srv.group }

// Groups returns all groups, by their numbers. The only one has number 0, and has the keys.
func (srv *Server) Groups() []*group.Group { return srv.every }

// bytes returns the memory of the engines in force.
func (srv *Server) bytes() (n int64) {
	for _, g := range srv.keyed {
		n += g.Engine.Load().Bytes()
	}
	return n
}

// Settle returns when the sessions have ended the batches that they ran when it was called, or after a second. After Group.Follow and Settle,
// no session decides anything that is not yet in the engine, and all their replies that reveal it wait for its outcome.
func (srv *Server) Settle() { srv.clients.Settle() }

// Snapshot writes a snapshot and blocks until it is durable. It logs a failure. It does nothing
// while the state is being loaded or another snapshot is being written.
func (srv *Server) Snapshot() {
	if srv.durable.Figures().Loading {
		return
	}
	if err := srv.durable.Snapshot(); err != nil && !errors.Is(err, ErrSnapshotting) {
		srv.log.Error("a snapshot failed", "err", err)
	}
}

// Ready returns nil if the server serves decisions, and otherwise an error that says why not.
func (srv *Server) Ready() error {
	if srv.stopping.Load() {
		return clients.ErrStopped
	}
	if srv.group.Special.Load()&specialLoading != 0 {
		return errors.New("the state is being loaded")
	}
	if srv.Refusing() {
		return errors.New("the log cannot be written, so commands that change something are refused (MISCONF)") // anybody may read this: no path
	}
	for _, g := range srv.every {
		if g.Replication == nil {
			continue
		}
		s := g.Replication.Status()
		if why := s.Unready(); why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// Callers of Do.

// Accounts are who the callers of Do may be.
type Accounts struct {
	auth *auth.Guard
	set  *config.Settings
}

// A User is who a caller of Do is.
type User struct {
	of     *Accounts
	rights *users.Rights // as they were when it signed in
}

// SignIn returns the user of a name and a password, nil if there is none. The caller bounds guesses.
func (a *Accounts) SignIn(name, password string) *User {
	return a.user(a.auth.SignIn([]byte(name), []byte(password)))
}

// UserOf returns the user that a client is by the name in its certificate, nil if there is none.
func (a *Accounts) UserOf(certified string) *User { return a.user(a.certified(certified)) }

// certified returns the rights of the user of UserOf.
func (a *Accounts) certified(name string) *users.Rights {
	if r := a.auth.Get(name); r != nil && r.On() && a.set.TLSClientsUser.Get() == "CN" {
		return r
	}
	return nil
}

func (a *Accounts) user(r *users.Rights) *User {
	if r == nil {
		return nil
	}
	return &User{a, r}
}

// Users returns the users in force.
func (srv *Server) Users() *auth.Users { return &srv.auth.Users }

// Name returns the user's name.
func (u *User) Name() string { return u.rights.Name }

// In returns a context in which Do acts as the user.
func (u *User) In(ctx context.Context) context.Context { return context.WithValue(ctx, userKey{}, u) }

// Valid reports whether the user is still there and may sign in.
func (u *User) Valid() bool {
	now := u.of.auth.Now(u.rights)
	return now != nil && now.On()
}

// as returns a context in which Do acts for a client at an address with these rights, or with those of default if r is nil.
func (a *Accounts) as(r *users.Rights, addr string) context.Context {
	from, ctx := &origin.Origin{User: users.Default, Addr: addr}, context.Background()
	if user := a.user(r); user != nil {
		from.User, ctx = r.Name, user.In(ctx)
	}
	return origin.With(ctx, from)
}

// userKey is the key under which a context has its user.
type userKey struct{}

// rightsOf returns the rights in a context: those of its user or, without one, of default. A user that is gone has none.
func (a *Accounts) rightsOf(ctx context.Context) *users.Rights {
	u, _ := ctx.Value(userKey{}).(*User)
	if u == nil {
		u = &User{a, a.auth.Default()}
	}
	if now := a.auth.Now(u.rights); now != nil && now.On() {
		return now
	}
	return users.Reset(u.rights.Name, 0)
}

// Signed reports whether a context has a user that has signed in.
func Signed(ctx context.Context) bool { return ctx.Value(userKey{}) != nil }
