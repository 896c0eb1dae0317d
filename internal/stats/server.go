package stats

import "time"

// Server has the figures of a server. Counters count from the start of the process and never decrease.
type Server struct {
	// Version is the version of limitdb, as `limitdb version` prints it.
	Version string
	// Uptime is the time since the server started.
	Uptime  time.Duration
	Clients Clients
	Traffic Traffic
	// Commands has the commands that were called.
	Commands []Command
	// SlowlogEntries is the current number of entries in the slow log, and SlowCommands counts all that there were.
	SlowlogEntries int64
	SlowCommands   uint64
	Crossings      Crossings
}

// Crossings counts what became of requests whose limits are in several groups.
type Crossings struct {
	// Requests counts them all, and Results those that were answered.
	Requests uint64
	Results  []Count
	// DeniedLate counts requests that one group has denied when another had, or may have, taken its part.
	DeniedLate uint64
	// GivenBack counts parts that were given back, and Left those that may have stayed taken, though their requests were not granted.
	GivenBack, Left uint64
	// ToGiveBack is how many parts are to be given back by groups that cannot do it now.
	ToGiveBack int
}

// Clients describes the connections of the RESP port.
type Clients struct {
	// Connected is how many there are, without those of other nodes, and Max how many there may be (maxclients).
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

// Count is a counter for one value of a label. Names are words of the server's own, never what a client sent,
// except in TopLimited.
type Count struct {
	Name string
	N    uint64
}
