package server

import "strings"

// insteadOf returns what to use in limitdb instead of a Redis command that it does not have, or
// "" for any other word. When limitdb gains a command, remove it from this table.
func insteadOf(name []byte) string {
	word := strings.ToUpper(string(name))
	for _, row := range [...]struct{ commands, use string }{
		{
			"GET GETEX GETDEL MGET STRLEN GETRANGE",
			"limitdb keeps limits, not strings: RL.PEEK key GCRA 100/m returns what is left of a limit, RL.INFO key what a key holds",
		},
		{
			"SET SETEX PSETEX SETNX GETSET MSET MSETNX APPEND SETRANGE",
			"limitdb keeps limits, not strings: RL.TAKE key GCRA 100/m takes from a limit; RL.LEASE key 1 30s ID me is a lock that expires",
		},
		{
			"INCR INCRBY INCRBYFLOAT INCREX",
			"limitdb counts and decides in one step: RL.TAKE key FIXED 100/m, or SLIDING, GCRA and others in the place of FIXED",
		},
		{
			"DECR DECRBY",
			"RL.REFUND key FIXED 100/m gives back what RL.TAKE took; RL.RELEASE key ID me ends a lease",
		},
		{
			"EXPIRE PEXPIRE EXPIREAT PEXPIREAT EXPIRETIME PEXPIRETIME PERSIST",
			"a key expires by itself when its limit is full again; TTL key returns when, RL.RESET key forgets it now",
		},
		{
			"EVAL EVAL_RO EVALSHA EVALSHA_RO SCRIPT FCALL FCALL_RO",
			"limitdb runs no scripts: RL.TAKE key GCRA 100/m decides in one atomic step, RL.TAKEALL over several keys",
		},
		{
			"MULTI EXEC DISCARD WATCH UNWATCH",
			"limitdb has no transactions: RL.TAKEALL 2 key1 key2 GCRA 100/m FIXED 1000/d takes from several limits, or from none, in one atomic step",
		},
		{
			"ZADD ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE ZREM ZREMRANGEBYSCORE ZREMRANGEBYRANK ZSCORE ZINCRBY",
			"limitdb has sliding windows of its own: RL.TAKE key LOG 100/m is exact, SLIDING and SEGMENTED take less memory",
		},
		{
			"HSET HSETNX HMSET HGET HMGET HGETALL HINCRBY HINCRBYFLOAT HDEL HEXISTS HLEN",
			"limitdb has buckets of its own: RL.TAKE key TOKEN 100/m BURST 20, or GCRA, LEAKY and QUEUE in the place of TOKEN",
		},
		{
			"LPUSH LPUSHX RPUSH RPUSHX LPOP RPOP LLEN LRANGE LTRIM LINDEX BLPOP BRPOP",
			"limitdb has windows and queues of its own: RL.TAKE key LOG 100/m is a sliding log, RL.TAKE key QUEUE 10/s BURST 50 a paced queue",
		},
		{
			"SADD SREM SCARD SISMEMBER SMEMBERS",
			"limitdb limits concurrency with leases: RL.LEASE key 10 30s ID me, RL.RELEASE key ID me, RL.HOLDERS key",
		},
	} {
		for c := range strings.FieldsSeq(row.commands) {
			if c == word {
				return row.use
			}
		}
	}
	return ""
}
