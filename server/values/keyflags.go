package values

import (
	"slices"

	"limitdb/resp"
)

// keyFlags returns what a command does with its keys, in Redis' words; nil for what spec.Command.KeySpecFlags says of
// most. Clients read it with COMMAND, and proxies decide by it.
func keyFlags(name string) []string {
	switch name {
	case "SETEX", "PSETEX", "MSET":
		return []string{"OW", "update"}
	case "SETNX", "MSETNX":
		return []string{"OW", "insert"}
	case "APPEND", "LPUSH", "RPUSH", "LPUSHX", "RPUSHX", "SADD", "HSETNX":
		return []string{"RW", "insert"}
	case "HSET", "HMSET", "ZADD", "SETRANGE", "PERSIST", "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT":
		return []string{"RW", "update"}
	case "LTRIM", "ZREM", "ZREMRANGEBYSCORE", "ZREMRANGEBYRANK", "HDEL", "SREM":
		return []string{"RW", "delete"}
	case "GETDEL", "LPOP", "RPOP", "ZPOPMIN", "ZPOPMAX":
		return []string{"RW", "access", "delete"}
	case "TYPE", "STRLEN", "LLEN", "HLEN", "HSTRLEN", "HEXISTS", "SCARD", "SISMEMBER", "ZCARD",
		"ENCODING", "FREQ", "IDLETIME", "REFCOUNT":
		return []string{"RO"}
	case "SET":
		return []string{"RW", "access", "update", "variable_flags"}
	}
	return nil
}

// keyFlagsOf returns a function that does the same for one key of a call, where keys or calls differ; else nil.
func keyFlagsOf(name string) func(args [][]byte, key int) []string {
	of := func(first, second []string) func([][]byte, int) []string {
		return func(_ [][]byte, key int) []string {
			if key == 1 {
				return first
			}
			return second
		}
	}
	switch name {
	case "SET":
		return func(args [][]byte, _ int) []string {
			if slices.ContainsFunc(args[3:], func(a []byte) bool { return resp.EqualFold(a, "GET") }) {
				return []string{"RW", "access", "update"}
			}
			return []string{"OW", "update"}
		}
	case "RENAME":
		return of([]string{"RW", "access", "delete"}, []string{"OW", "update"})
	case "RENAMENX":
		return of([]string{"RW", "access", "delete"}, []string{"OW", "insert"})
	case "COPY":
		return of([]string{"RO", "access"}, []string{"OW", "update"})
	}
	return nil
}

// setKeyFlags sets the flags of commands and their subcommands.
func setKeyFlags(rows []Row) {
	for i := range rows {
		r := &rows[i]
		r.KeyFlags, r.KeyFlagsOf = keyFlags(r.Name), keyFlagsOf(r.Name)
		setKeyFlags(r.Rows)
	}
}
