package spec

import "strings"

// The replies, in Redis' words, to arguments that many commands have.
const (
	ErrSyntax         = "ERR syntax error"
	ErrNotInt         = "ERR value is not an integer or out of range"
	ErrWrongType      = "WRONGTYPE Operation against a key holding the wrong kind of value"
	ErrDBIndex        = "ERR DB index is out of range"
	ErrOOM            = "OOM command not allowed when used memory > 'maxmemory'."
	ErrNoLeader       = "CLUSTERDOWN no node leads now, or this node cannot reach the leader: ask again"
	ErrPatternTooLong = "ERR a pattern may have at most 1024 bytes, and all patterns of one command 16384"
	ErrTooMany        = "ERR a transaction or script takes up to 16384 keys and writes up to 64 MB; KEYS and SCAN in it take a table of up to 1048576 keys, fewer if keys and pattern are long"
)

// Plain returns the text of an error without the name of a package at its beginning, as in "engine: closed". Clients do
// not know our packages.
func Plain(err error) string {
	text := err.Error()
	name, rest, _ := strings.Cut(text, ": ")
	if rest != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == "" {
		return rest
	}
	return text
}
