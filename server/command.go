package server

import (
	"strings"

	"limitdb/resp"
)

// A command is one row of the command table. The table is the only
// description of the commands: dispatch, arity checks, COMMAND and its
// subcommands, ACL categories and docs/commands.md all come from it.
type command struct {
	name  string // upper case; a subcommand's is without its parent's
	arity int    // as in Redis: counts the command's name; negative: at least that many
	flags flags
	// firstKey, lastKey and step give the key positions as Redis does;
	// firstKey 0: no keys; lastKey negative: counted from the end.
	firstKey, lastKey, step int
	// numKeys is the position of the argument that gives the number of keys; the keys follow
	// it. 0: firstKey, lastKey and step give the positions.
	numKeys  int
	keyFlags []string // Redis' key spec flags; nil: as flags say

	group      string
	summary    string
	since      string
	complexity string
	args       []argument
	usage      string // the reply to a wrong number of arguments; empty: Redis' own
	example    string // a valid call, which that reply shows after the syntax

	run func(c *call)
	// atomic is what a command on values does in one step on its keys: see values.go. Its run is
	// atomically.
	atomic func(c *call, t *txn)
	// resolves: its keys come from the rules; see resolve.
	resolves bool
	plan     func(srv *Server, args [][]byte, p *plan) (text string) // of a command that decides on its one key: see plan; or nil
	subs     []command

	full   string   // fullName, given by newTable
	id     int      // position in the statistics, given by newTable
	parent *command // of a subcommand
}

// flags are the Redis command flags that mean something here, and a few of our own.
type flags uint32

const (
	flagWrite flags = 1 << iota
	flagReadonly
	flagAdmin
	flagPubSub
	flagBlocking
	flagLoading
	flagStale
	flagSkipMonitor
	flagFast
	flagNoAuth
	flagMovableKeys

	// Ours, not shown to clients.
	flagWide      // may have limits' WideArgs arguments
	flagLong      // may have an argument of limits' LongBulk bytes
	flagAhead     // takes one key, the first argument, and always runs at once: see ahead.go
	flagClient    // needs a client's connection
	flagNow       // runs at once in a transaction, too
	flagNoMulti   // cannot be in a transaction
	flagTouches   // counts as a change of a collection that exists, also if it makes none
	flagScript    // touches no key, and may be called by scripts
	flagDangerous // ACL category only
	flagConn      // ACL category @connection
	flagLead      // only the node that leads can run it, like one that reads or writes
	flagQuorum    // its reply waits for a majority of the nodes, also with raft-ack leader
	flagStaleRead // after READONLY, another node may run it on its own table
)

var flagNames = [...]struct {
	flag flags
	name string
}{
	{flagWrite, "write"},
	{flagReadonly, "readonly"},
	{flagAdmin, "admin"},
	{flagPubSub, "pubsub"},
	{flagBlocking, "blocking"},
	{flagLoading, "loading"},
	{flagStale, "stale"},
	{flagSkipMonitor, "skip_monitor"},
	{flagFast, "fast"},
	{flagNoAuth, "no_auth"},
	{flagMovableKeys, "movablekeys"},
}

// names returns the names of the flags that clients are shown.
func (f flags) names() []string {
	var out []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// An argument describes one argument for COMMAND DOCS and the reference.
type argument struct {
	name     string
	kind     string // key string integer double pure-token oneof block
	token    string // the word before it
	optional bool
	multiple bool
	args     []argument
}

// categories returns the command's ACL categories, derived from its flags and group.
func (c *command) categories() []string {
	var out []string
	add := func(when bool, name string) {
		if when {
			out = append(out, name)
		}
	}
	add(c.group == "generic", "@keyspace")
	add(c.flags&flagWrite != 0, "@write")
	add(c.flags&flagReadonly != 0, "@read")
	add(c.flags&flagAdmin != 0, "@admin")
	add(c.flags&(flagAdmin|flagDangerous) != 0, "@dangerous")
	add(c.flags&flagPubSub != 0, "@pubsub")
	add(c.flags&flagConn != 0, "@connection")
	add(c.flags&flagBlocking != 0, "@blocking")
	add(c.flags&flagFast != 0, "@fast")
	add(c.flags&flagFast == 0, "@slow")
	return out
}

// removing marks c as a command that removes its keys.
func removing(c command) command {
	c.keyFlags = []string{"RM", "delete"}
	return c
}

// keySpecFlags returns Redis' key spec flags, which say what the command does with its keys.
func (c *command) keySpecFlags() []string {
	switch {
	case c.keyFlags != nil:
		return c.keyFlags
	case c.flags&flagWrite != 0:
		return []string{"RW", "access", "update"}
	}
	return []string{"RO", "access"}
}

// fullName returns the name as Redis writes it in statistics: lower case, as "config|get".
func (c *command) fullName() string {
	if c.parent != nil {
		return strings.ToLower(c.parent.name + "|" + c.name)
	}
	return strings.ToLower(c.name)
}

// hasKeys reports whether the command takes keys.
func (c *command) hasKeys() bool { return c.firstKey|c.numKeys > 0 }

// keys yields the positions of the keys in args.
func (c *command) keys(args [][]byte, yield func(i int)) {
	if c.numKeys > 0 {
		n, ok := resp.ParseInt(args[c.numKeys])
		for i := c.numKeys + 1; ok && i < len(args) && n > 0; i, n = i+1, n-1 {
			yield(i)
		}
		return
	}
	if c.firstKey <= 0 {
		return
	}
	last := c.lastKey
	if last < 0 {
		last += len(args)
	}
	for i := c.firstKey; i <= last && i < len(args); i += c.step {
		yield(i)
	}
}

// arityOK reports whether the command accepts n arguments, the name included.
func (c *command) arityOK(n int) bool {
	if c.arity < 0 {
		return n >= -c.arity
	}
	return n == c.arity
}
