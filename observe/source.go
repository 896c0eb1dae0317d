package observe

import "time"

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

	Clients  Clients
	Traffic  Traffic
	Commands []Command
	Engine   Engine
	Config   Config
	// Durability is nil where nothing is kept on a disk.
	Durability *Durability

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

// Command tells about one command of the table.
type Command struct {
	// Name is in lower case, with the subcommand after a bar: "client|list".
	Name string
	// Calls counts every call, those that were answered with an error included.
	Calls uint64
	// Errors counts the calls that were answered with an error. A denial is
	// not an error.
	Errors uint64
	// Latency is the time that the command took, without the network.
	Latency Histogram
}

// Buckets is the number of buckets of a Histogram.
const Buckets = 22

// Histogram counts durations in buckets that double. Bucket i counts those
// above 2^(i-1) µs and up to 2^i µs: bucket 0 up to 1 µs, bucket 20 up to
// 1.05 s. The last counts all that were longer.
type Histogram struct {
	Buckets [Buckets]uint64
	// Sum is that of all durations, in nanoseconds.
	Sum uint64
}

// Count is how many durations were counted.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, b := range h.Buckets {
		n += b
	}
	return n
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

// Durability tells what is kept on a disk. Times are zero for what has not happened yet.
type Durability struct {
	// Loading: what was kept is being read, and the numbers below are still 0.
	Loading bool
	// LogBytes and BaseBytes are the sizes of the append-only log and of the last snapshot.
	LogBytes, BaseBytes int64
	// Written counts bytes, Writes and Syncs what was done to the log,
	// Failures what could not be.
	Written, Writes, Syncs, Failures uint64
	// LastSync is when the log was made durable last.
	LastSync time.Time
	// UnsyncedAge is the age of the oldest byte that should be durable by now and is not.
	UnsyncedAge time.Duration
	// Waiting replies there are until the next sync.
	Waiting int
	// Refusing: the log cannot be written, and so are changes.
	Refusing bool
	// Saving: a snapshot is being written.
	Saving bool
	// Saves and SaveFailures count snapshots; LastSave is when the last one was
	// durable, LastSaveTook how long the last one took, made or not, LastSaveOK
	// whether it was made.
	Saves, SaveFailures uint64
	LastSave            time.Time
	LastSaveTook        time.Duration
	LastSaveOK          bool
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
