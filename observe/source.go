package observe

import (
	"time"

	"limitdb/internal/stats"
)

// Source is where the numbers come from. All functions are called from the
// HTTP port's goroutines, several at a time, and must not block.
type Source struct {
	// Snapshot adds up the counters as they are now. It is called once for
	// each scrape.
	Snapshot func() Snapshot
	// Ready returns nil while decisions are being served. Otherwise the error
	// is the reason, in words for a person: "loading", "stopping".
	Ready func() error
	// Live returns nil while the server makes progress. Otherwise a restart is needed, and the error
	// says what is stuck. Nil: it always does.
	Live func() error
}

// Snapshot is the state of the server at one instant. Counters count from the
// start of the process and never go down. Slices are read after the call
// returns, so they must not be written to again.
type Snapshot struct {
	// Version is limitdb's own, as `limitdb version` prints it.
	Version string
	// Uptime is the time since the server started.
	Uptime time.Duration
	// ClockOffset is how far the machine's wall clock is ahead of the clock
	// that decisions are made by.
	ClockOffset time.Duration

	Clients Clients
	Traffic Traffic
	// Commands are those that were called.
	Commands []stats.Command
	Engine   Engine
	Config   Config
	// Durability says what is kept on a disk, and Refusing whether changes are refused because
	// the log cannot be written.
	Durability stats.Durability
	Refusing   bool

	// SlowlogEntries is how many entries the slow log holds now.
	SlowlogEntries int64
	// SlowCommands counts the commands that were slow enough for the slow log.
	SlowCommands uint64
}

// Clients tells about connections of the RESP port.
type Clients struct {
	// Connected, Max: how many there are, and how many there may be (maxclients).
	Connected, Max int64
	// Blocked wait for their turn, Paused are held by CLIENT PAUSE, Monitors
	// run MONITOR. All three are among Connected.
	Blocked, Paused, Monitors int64
	// BufferBytes is what all query and reply buffers hold together;
	// BufferBytesMax is the limit on it (maxmemory-clients), 0 for none.
	BufferBytes, BufferBytesMax int64

	// Accepted counts connections that were served.
	Accepted uint64
	// Rejected counts connections that were turned away, by reason
	// ("maxclients", "protected-mode").
	Rejected []Count
	// Closed counts connections that ended, by reason ("client", "idle",
	// "query-buffer", "output-buffer").
	Closed []Count
	// AcceptErrors counts failures of accept(2), such as too many open files.
	AcceptErrors uint64
	// AuthFailures counts wrong passwords.
	AuthFailures uint64
	// ProtocolErrors counts streams that could not be read on.
	ProtocolErrors uint64
	// Panics counts handlers that panicked; each closed its connection.
	Panics uint64
}

// Traffic counts the bytes of the RESP port.
type Traffic struct {
	BytesIn, BytesOut uint64
}

// Count is a counter for one value of a label. Names are words of the
// server's own choosing, never what a client sent.
type Count struct {
	Name string
	N    uint64
}

// Engine tells about decisions and the table of keys.
type Engine struct {
	Allowed, Limited, Peeked, Refunded uint64
	// Keys is how many the table holds, Bytes what they cost, BytesMax the
	// limit on it (maxmemory), 0 for none.
	Keys, Bytes, BytesMax int64
	// Expired counts keys dropped because their time had come, Evicted those
	// dropped to stay below BytesMax.
	Expired, Evicted uint64
	// Waiting requests there are now, for WaitingKeys keys; Waited counts those that
	// had to wait.
	Waiting, WaitingKeys int64
	Waited               uint64
}

// Config tells how the last reload went.
type Config struct {
	// Reloads and ReloadFailures count reloads since the start.
	Reloads, ReloadFailures uint64
	// LastReloadOK is false after a failed reload. The start counts as a
	// reload that went well.
	LastReloadOK bool
	// LastReload is when the configuration in force was loaded.
	LastReload time.Time
}
