package server

import (
	"reflect"
	"strings"
	"testing"

	"limitdb/server/spec"
)

// Commands on values allocate nothing, and an idle client keeps no large buffers of them.
func TestBuffersOfValues(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	big := strings.Repeat("x", 60<<10)
	c.do("SET", "k", big, "EX", "100")
	c.do("RPUSH", "l", big, big)
	c.do("EXPIRE", "l", "100")
	c.do("DEL", strings.Repeat("k", 10))
	c.do(append([]string{"MGET"}, strings.Fields(strings.Repeat("k ", 1000))...)...)
	held := func(buffer string) int { return reflect.ValueOf(&c.s.call.Call).Elem().FieldByName(buffer).Cap() }
	if held("body") > 512 || held("state") > 512 {
		t.Errorf("%d and %d bytes are kept", held("body"), held("state"))
	}
	for _, command := range []string{"INCR n", "GET n", "EXPIRE n 100", "SET n 5 EX 10", "TTL n"} {
		in := encode(strings.Fields(command)...)
		if n := testing.AllocsPerRun(100, func() {
			c.s.Data(in)
			c.conn.out = c.conn.out[:0]
		}); n > 0 && !raceDetector {
			t.Errorf("%s: %v allocations", command, n)
		}
	}
}

// Commands on values never forget, lengthen or double the quota of a limit or a lease.
func TestValuesOnLimits(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("CL.THROTTLE", "cell", "1", "2", "60")
	c.do("RL.LEASE", "jobs", "1", "30s", "ID", "me")
	c.do("SET", "s", "1")
	for _, key := range []string{"cell", "jobs"} {
		for _, command := range []string{
			"GET K", "SET K 1", "SET K 1 XX GET", "SETEX K 5 1", "GETSET K 1", "GETDEL K", "GETEX K", "MSET a 1 K 1", "APPEND K 1", "STRLEN K", "SETRANGE K 0 x", "INCR K", "INCRBYFLOAT K 1", "INCREX K",
			"EXPIRE K 1000", "PEXPIRE K 1", "EXPIREAT K 1", "EXPIRE K 5 LT", "PERSIST K", "RENAME K other", "RENAME s K", "RENAMENX K other", "COPY K other", "COPY s K REPLACE",
			"ZADD K 1 m", "HSET K f v", "LPUSH K v", "SADD K m", "ZCARD K", "HGETALL K", "LLEN K", "SMEMBERS K",
		} {
			words := strings.Fields(strings.ReplaceAll(command, "K", key))
			if got := line(c.do(words...)); !strings.HasPrefix(got, "-WRONGTYPE") || !strings.Contains(got, "RL.RESET") {
				t.Errorf("%q: %s", words, got)
			}
		}
		c.steps(ts,
			[2]string{"SETNX " + key + " 1", "0"}, [2]string{"SET " + key + " 1 NX", "nil"}, [2]string{"MSETNX " + key + " 1 a 2", "0"},
			[2]string{"RENAMENX s " + key, "0"}, [2]string{"COPY s " + key, "0"}, [2]string{"MGET s " + key, `["1" nil]`}, [2]string{"EXISTS other a", "0"})
	}
	c.steps(ts,
		[2]string{"RL.PEEK cell GCRA 2/m BURST 2 COST 0", "[0 2 1 -1 30000]"},
		[2]string{"TTL cell", "30"}, [2]string{"TYPE cell", "gcra"}, [2]string{"TYPE jobs", "lease"}, [2]string{"PEXPIRETIME cell", "1600000030000"},
		[2]string{"RL.TAKE s GCRA 5/m", "-" + spec.ErrWrongType + ": it holds STRING, not GCRA; RL.RESET forgets it"},
		[2]string{"RL.TAKE s GCRA 5/m REPLACE", "[0 5 4 -1 12000]"},
		[2]string{"SET s 1", "-" + spec.ErrWrongType + ": it holds GCRA, not a value; RL.RESET forgets it"},
		[2]string{"RL.RESET s cell", "2"}, [2]string{"SET s 1", "OK"})
}

func TestIncrEX(t *testing.T) {
	ts := newTestServer(t)
	ts.client().steps(ts,
		[2]string{"INCREX n", "[1 1]"},
		[2]string{"INCREX n BYINT 5 UBOUND 8 EX 10", "[6 5]"}, [2]string{"TTL n", "10"},
		[2]string{"INCREX n UBOUND 8 BYINT 5", "[6 0]"},
		[2]string{"INCREX n BYINT 5 UBOUND 8 SATURATE EX 99 ENX", "[8 2]"}, [2]string{"TTL n", "10"},
		[2]string{"INCREX n BYINT -20 LBOUND -3 SATURATE PERSIST", "[-3 -11]"}, [2]string{"TTL n", "-1"},
		[2]string{"INCREX n ENX PX 5000", "[-2 1]"}, [2]string{"PTTL n", "5000"},
		[2]string{"INCREX n BYINT 9223372036854775807", "[9223372036854775805 9223372036854775807]"},
		[2]string{"INCREX n BYINT 5", "[9223372036854775805 0]"},
		[2]string{"INCREX new BYINT 5 UBOUND 1", "[0 0]"}, [2]string{"EXISTS new", "0"},
		[2]string{"INCREX f BYFLOAT 0.5", `["0.5" "0.5"]`}, [2]string{"INCREX f BYFLOAT 5 UBOUND 2.25 SATURATE", `["2.25" "1.75"]`}, [2]string{"INCREX f BYFLOAT 5 UBOUND 3", `["2.25" "0"]`},
		[2]string{"INCREX n EX 1 PX 1", "-" + spec.ErrSyntax}, [2]string{"INCREX n ENX", "-" + spec.ErrSyntax}, [2]string{"INCREX n BYINT 1 BYINT 1", "-" + spec.ErrSyntax},
		[2]string{"INCREX n BYINT 1 BYFLOAT 1", "-" + spec.ErrSyntax}, [2]string{"INCREX n PERSIST ENX", "-" + spec.ErrSyntax}, [2]string{"INCREX n LBOUND 5 UBOUND 1", "-ERR LBOUND is above UBOUND"}, [2]string{"INCREX n BYINT x", "-" + spec.ErrNotInt},
		[2]string{"INCREX n EX 0", "-ERR invalid expire time in 'increx' command"})
}
