package resp

// The limits of a client that has given its password, and of one that has not.
var (
	normal = Limits{Args: 1024, WideArgs: 65536, Bulk: 64 << 10, Inline: 64 << 10, Query: 1 << 20}
	before = Limits{Args: 10, WideArgs: 10, Bulk: 16 << 10, Inline: 4 << 10, Query: 64 << 10, Unauthenticated: true}
)

// command is a command as a client library sends it.
func command(args ...string) []byte {
	b := AppendArray(nil, len(args))
	for _, a := range args {
		b = AppendBulkString(b, a)
	}
	return b
}
