package audit

import (
	"slices"

	"limitdb/resp"
)

// names are the commands whose changes are written, by their full names. Those that only sometimes change something are in Changes, too.
func names() []string {
	return []string{
		"rl.rules|set", "rl.rules|del", "rl.rules|load", "rl.rules|reload", "rl.rules|mode", "rl.rules|reset",
		"rl.reset", "flushall", "flushdb",
		"config|set", "config|rewrite", "config|resetstat", "slowlog|reset", "latency|reset",
		"acl|setuser", "acl|deluser", "acl|load", "acl|save",
		"raft|server", "raft|transfer", "raft|drain", "raft|replicas",
		"shutdown", "script|flush", "client|kill", "client|pause", "client|unpause", "rl.clock",
	}
}

// Count returns how many commands there are whose changes are written.
func Count() int { return len(names()) }

// Is reports whether the changes of a command are written.
func Is(full string) bool { return slices.Contains(names(), full) }

// Changes reports whether a command for which Is holds changes something, with these arguments.
func Changes(full string, args [][]byte) bool {
	switch full {
	case "raft|server":
		return len(args) > 2 && !resp.EqualFold(args[2], "LIST")
	case "raft|replicas":
		return len(args) > 2
	case "rl.clock":
		return len(args) > 1
	}
	return true
}
