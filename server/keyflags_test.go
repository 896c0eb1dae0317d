package server

import (
	"strings"
	"testing"

	"limitdb/resp"
)

// TestKeyFlagsAreThoseOfRedis asks for the keys of a call of each command on values, and what it does with them.
func TestKeyFlagsAreThoseOfRedis(t *testing.T) {
	redis := startRedis(t)
	c := newTestServer(t).client()
	for _, call := range strings.Split(`SET k v|SET k v GET|SET k v NX EX 5|GET k|SETEX k 1 v|PSETEX k 1 v|SETNX k v|GETSET k v|GETDEL k|GETEX k|GETEX k EX 5
		|MGET a b|MSET a 1 b 2|MSETNX a 1 b 2|APPEND k v|STRLEN k|GETRANGE k 0 1|SUBSTR k 0 1|SETRANGE k 0 v
		|INCR k|DECR k|INCRBY k 1|DECRBY k 1|INCRBYFLOAT k 1|EXPIRE k 1|PEXPIRE k 1|EXPIREAT k 1|PEXPIREAT k 1|PERSIST k|TTL k|PTTL k|EXPIRETIME k|PEXPIRETIME k
		|HSET k f v|HMSET k f v|HSETNX k f v|HGET k f|HMGET k f|HGETALL k|HSCAN k 0|HKEYS k|HVALS k|HDEL k f|HEXISTS k f|HLEN k|HSTRLEN k f|HINCRBY k f 1|HINCRBYFLOAT k f 1
		|SADD k a|SREM k a|SISMEMBER k a|SMISMEMBER k a|SCARD k|SMEMBERS k|LPUSH k a|RPUSH k a|LPUSHX k a|RPUSHX k a|LPOP k|RPOP k|LLEN k|LINDEX k 0|LRANGE k 0 1|LTRIM k 0 1
		|ZADD k 1 a|ZPOPMIN k|ZPOPMAX k 2|ZSCAN k 0 COUNT 5|ZINCRBY k 1 a|ZREM k a|ZREMRANGEBYSCORE k 0 1|ZREMRANGEBYRANK k 0 1|ZCARD k|ZCOUNT k 0 1|ZSCORE k a|ZMSCORE k a|ZRANK k a|ZREVRANK k a|ZRANGE k 0 1
		|ZREVRANGE k 0 1|ZRANGEBYSCORE k 0 1|ZREVRANGEBYSCORE k 0 1|TYPE k|RENAME a b|RENAMENX a b|COPY a b|OBJECT ENCODING k|DEL a b|UNLINK a|EXISTS a|TOUCH a|MEMORY USAGE k
		|EVAL x 2 a b|EVALSHA x 1 a|EVAL_RO x 1 a|WATCH a b`, "|") {
		words := append([]string{"COMMAND", "GETKEYSANDFLAGS"}, strings.Fields(call)...)
		if got, want := line(c.do(words...)), line(redis.do(words)[0]); got != want {
			t.Errorf("%s: %s, Redis %s", call, got, want)
		}
	}
	// Those of SET and GETEX have notes, too.
	for _, name := range strings.Fields(`GET SETEX SETNX GETDEL MGET MSET MSETNX APPEND STRLEN SETRANGE INCR EXPIRE PERSIST TTL HSET HGET HDEL SADD SREM LPUSH LPOP LTRIM
		ZADD ZPOPMIN ZREM ZCARD ZRANGE TYPE RENAME RENAMENX COPY DEL EXISTS`) {
		specs := func(v resp.Value) string { return line(v.Elems[0].Elems[8]) }
		if got, want := specs(c.do("COMMAND", "INFO", name)), specs(redis.do([]string{"COMMAND", "INFO", name})[0]); got != want {
			t.Errorf("%s: %s, Redis %s", name, got, want)
		}
	}
	for name, want := range map[string]int{"RENAME": 2, "COPY": 2, "GET": 1, "MGET": 1} {
		if got := line(c.do("COMMAND", "DOCS", name)); strings.Count(got, `"key_spec_index" 0`)+strings.Count(got, `"key_spec_index" 1`) != want || strings.Contains(got, `"key_spec_index" 1`) != (want == 2) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
