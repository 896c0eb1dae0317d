// Package server speaks RESP to clients: sessions, the command table with one
// file for each command family (cmd_*.go), limits and deadlines, statistics.
// Sockets are the transport's, decisions the engine's.
package server

import (
	"log/slog"
	"sync/atomic"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/server/pubsub"
	"limitdb/server/slowlog"
)

// Clock is the time that decisions are made by, beside the wall clock.
type Clock interface {
	clock.Clock
	// Behind is by how many nanoseconds the clock is behind the wall clock.
	Behind() int64
	// Adopt moves the clock to the wall clock, forwards only, and returns by how
	// many nanoseconds.
	Adopt() int64
}

// Options are a server's parts. All fields must be set unless they say otherwise.
type Options struct {
	Settings *config.Settings
	Registry *config.Registry
	Engine   *engine.Engine
	Clock    Clock
	// Log gets what operators should see; nil: nothing is logged.
	Log *slog.Logger
	// Version is limitdb's own version, for INFO and HELLO.
	Version string
	// Shutdown is called, once and from its own goroutine, when a client says SHUTDOWN; nil: SHUTDOWN is refused.
	Shutdown func(now bool)
	// Durability keeps the state on a disk; nil: nobody does.
	Durability *Durability
	// Replication keeps the state on several nodes; nil: this one stands alone.
	Replication *Replication
	// Memory bounds the memory that the process may use, in bytes; 0: the machine's
	// alone does.
	Memory int64
	// Ports tells where the server listens, for INFO; nil: the settings' port.
	Ports func() (tcp int)
}

// Server runs the commands of all sessions. Make it with New, give it to a
// transport as its Handler, and call Run.
type Server struct {
	set      *config.Settings
	registry *config.Registry
	engine   atomic.Pointer[engine.Engine] // see states
	swapped  chan struct{}                 // another engine is in force, capacity 1
	clock    Clock
	log      *slog.Logger
	version  string
	opts     Options
	runID    string
	started  int64 // ns of Unix time

	table    *table
	counts   *stats.Counters
	counters counters
	errors   stats.Errors
	slowlog  slowlog.Log
	latency  latencyMonitor
	lengths  atomic.Uint32 // counts the changes of the bounds of what clients send
	monitors monitors
	pause    pause
	clients  clients
	buffers  bufferPool
	queues   aheadPool
	together togetherPool
	wide     func(name []byte) bool
	zones    limit.Zones // that limits have named

	// authLimiter counts failed AUTH attempts by address: the server's own engine at work.
	authLimiter *engine.Engine
	authLimit   limit.Limit
	authDelays  authDelays

	durable durable
	misconf atomic.Pointer[string] // the reply to what is refused under specialMisconf

	special     atomic.Uint32
	clientBytes atomic.Int64 // held in all clients' buffers
	stopping    atomic.Bool
	evict       chan struct{} // asks cron to evict clients, capacity 1
	statsBase   statsBase
	pulses      pulses
	topics      pubsub.Topics
	parked      atomic.Int64 // clients that wait for something
	subscribed  atomic.Int64 // clients with a subscription
	queryMost   atomic.Int64 // the most that a client had unread, and unsent, when the
	unsentMost  atomic.Int64 // housekeeper looked last
	memory      memoryReading
	rates       stats.Rates
	peakBytes   atomic.Int64
}

// Clients is the number of connected clients.
func (srv *Server) Clients() int { return srv.clients.count() }
