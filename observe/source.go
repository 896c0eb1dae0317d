package observe

import (
	"time"

	"limitdb/internal/stats"
)

// Source provides the figures. The HTTP port's goroutines call its functions, several at the same time; the
// functions must not block.
type Source struct {
	// Snapshot adds up the counters as they are now. It is called once for each scrape.
	Snapshot func() Snapshot
	// Ready returns nil while the server makes decisions. Otherwise its error is the reason, in words for
	// people: "loading", "stopping".
	Ready func() error
	// Live returns nil while the server makes progress. Otherwise a restart is needed, and the error says
	// what is stuck. If Live is nil, the server always counts as live.
	Live func() error
}

// Snapshot is the state of the server at one instant. Counters count from the start of the process and never
// decrease. Slices are read after the call returns, so they must not be changed afterwards.
type Snapshot struct {
	// Version is the version of limitdb, as `limitdb version` prints it.
	Version string
	// Uptime is the time since the server started.
	Uptime time.Duration
	// ClockOffset is how far the machine's wall clock is ahead of the clock of decisions.
	ClockOffset time.Duration

	Clients Clients
	Traffic Traffic
	// Commands has the commands that were called.
	Commands []stats.Command
	Engine   Engine
	Config   Config
	// Durability describes what is kept on disk. Refusing reports whether changes are refused because the log
	// cannot be written.
	Durability stats.Durability
	Refusing   bool
	// Replication describes this node of a cluster.
	Replication stats.Replication

	// TopLimited has the keys that are denied most often now, with their counts of the last minutes. It is
	// empty unless metrics-top-keys asks for some.
	TopLimited []Count

	// Rules has the rules in force, in their order, and RulesProblem reports whether the last change of them had
	// a mistake.
	Rules        []Rule
	RulesProblem bool

	// DecisionLog reports whether decisions are logged, DecisionsLogged and DecisionsDropped how many were, and
	// how many were not because the file was too slow or could not be written.
	DecisionLog                       bool
	DecisionsLogged, DecisionsDropped uint64

	// SlowlogEntries is the current number of entries in the slow log.
	SlowlogEntries int64
	// SlowCommands counts the commands that were slow enough for the slow log.
	SlowCommands uint64
}

// Clients describes the connections of the RESP port.
type Clients struct {
	// Connected is how many there are, and Max how many there may be (maxclients).
	Connected, Max int64
	// Blocked connections wait for their turn, Paused ones are held by CLIENT PAUSE, and Monitors run
	// MONITOR. All three are included in Connected.
	Blocked, Paused, Monitors int64
	// BufferBytes is the size of all query and reply buffers together. BufferBytesMax is the limit on it
	// (maxmemory-clients), 0 for none.
	BufferBytes, BufferBytesMax int64

	// Accepted counts connections that were served.
	Accepted uint64
	// Rejected counts connections that were refused, by reason ("maxclients", "protected-mode").
	Rejected []Count
	// Closed counts connections that ended, by reason ("client", "idle", "query-buffer", "output-buffer").
	Closed []Count
	// AcceptErrors counts failures of accept(2), such as too many open files.
	AcceptErrors uint64
	// AuthFailures counts wrong passwords.
	AuthFailures uint64
	// ProtocolErrors counts streams that could not be parsed any further.
	ProtocolErrors uint64
	// Panics counts panics in handlers. Each closed its connection.
	Panics uint64
}

// Traffic counts the bytes of the RESP port.
type Traffic struct {
	BytesIn, BytesOut uint64
}

// Count is a counter for one value of a label. Names are words of the server's own, never what a client sent,
// except in TopLimited.
type Count struct {
	Name string
	N    uint64
}

// Engine describes decisions and the table of keys.
type Engine struct {
	Allowed, Limited, Peeked, Refunded uint64
	// Keys is the number of keys in the table, Bytes their memory, and BytesMax the limit on that
	// (maxmemory), 0 for none.
	Keys, Bytes, BytesMax int64
	// Expired counts keys that were removed because they expired, Evicted those that were removed to stay
	// below BytesMax.
	Expired, Evicted uint64
	// Waiting is the current number of waiters, for WaitingKeys keys. Waited counts all requests that had to
	// wait.
	Waiting, WaitingKeys int64
	Waited               uint64
}

// Rule has the counters of a rule.
type Rule struct {
	Namespace, Name string
	Mode            string // enforce, shadow, off
	stats.Rule
}

// Config describes the reloads of the configuration.
type Config struct {
	// Reloads and ReloadFailures count reloads since the start.
	Reloads, ReloadFailures uint64
	// LastReloadOK is false after a failed reload. The start counts as a successful reload.
	LastReloadOK bool
	// LastReload is when the current configuration was loaded.
	LastReload time.Time
}
