package spec

// Flags are the Redis command flags that mean something here, and a few of our own.
type Flags uint64

// As in Redis; COMMAND shows them.
const (
	Write Flags = 1 << iota
	Readonly
	Admin
	PubSub
	Blocking
	Loading
	Stale
	SkipMonitor
	Fast
	NoAuth
	MovableKeys
)

// Flags of our own, which clients are not shown.
const (
	Wide      Flags = 1 << (iota + 16) // may have limits' WideArgs arguments
	Long                               // may have an argument of limits' LongBulk bytes
	Ahead                              // takes one key, and always runs at once: see ahead.go
	Client                             // needs a client's connection
	Now                                // runs at once in a transaction, too
	NoMulti                            // cannot be in a transaction
	SelfTimed                          // reads the clock itself when it begins something long
	Touches                            // counts as a change of a collection that exists, also if it makes none
	Script                             // touches no key, and may be called by scripts
	Dangerous                          // ACL category only
	Conn                               // ACL category @connection
	Lead                               // only the leader can run it, like a command that reads or writes
	Quorum                             // its reply waits for a majority of the nodes, also with raft-ack leader
	StaleRead                          // after READONLY, another node may run it on its own table
	Watch                              // WATCH
	Decides                            // ACL category @limit
	AllKeys                            // shows or changes keys that it does not name: ACL allows it to those who may use all
	AllGroups                          // concerns the keys of all groups, one after the other
	Across                             // finds its keys by rules, or needs several limits at once: their slots may differ
	Works                              // needs the connection only to wait for work in the background, so that a caller without one may wait in its place
)

var flagNames = [...]struct {
	flag Flags
	name string
}{
	{Write, "write"},
	{Readonly, "readonly"},
	{Admin, "admin"},
	{PubSub, "pubsub"},
	{Blocking, "blocking"},
	{Loading, "loading"},
	{Stale, "stale"},
	{SkipMonitor, "skip_monitor"},
	{Fast, "fast"},
	{NoAuth, "no_auth"},
	{MovableKeys, "movablekeys"},
}

// Names returns the names of the flags that clients are shown.
func (f Flags) Names() []string {
	var out []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			out = append(out, n.name)
		}
	}
	return out
}
