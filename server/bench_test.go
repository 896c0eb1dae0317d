package server

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/internal/group"
	"limitdb/limit"
	"limitdb/server/durable"
)

// BenchmarkCommands measures a command from the bytes read to the bytes to
// write, 16 in a pipeline, on keys that are in the caches. Compare RL.TAKEALL of
// three limits with three times RL.TAKE.
func BenchmarkCommands(b *testing.B) {
	const most = "1000000000/s"
	texts := []string{
		"PING",
		"CL.THROTTLE user123 1000000000 1000000000 1",
		"RL.TAKE user123 GCRA " + most + " PARTIAL COST 3",
		"RL.RESERVE user123 GCRA " + most + " MAXWAIT 1s",
		"RL.TAKEALL 1 one GCRA " + most,
		"RL.TAKEALL 3 one two three GCRA " + most + " GCRA " + most + " GCRA " + most,
		"RL.TOP",
	}
	for _, a := range limit.Algorithms() {
		for _, more := range []string{"", " SEGMENTS 60"} {
			if _, err := limit.Parse(a.String() + " 1000/m" + more); err == nil {
				texts = append(texts, "RL.TAKE "+a.String()+" "+a.String()+" 1000/m"+more)
			}
		}
	}
	for _, text := range texts {
		b.Run(text, func(b *testing.B) {
			ts := newTestServer(b)
			c := ts.client()
			batch := bytes.Repeat(encode(strings.Fields(text)...), 16)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%16 == 0 {
					ts.clock.Advance(1e6)
					c.conn.out = c.conn.out[:0]
					c.s.Data(batch)
				}
			}
		})
	}
}

// BenchmarkValues measures a command on a value in a pipeline of 16, on 512 keys.
func BenchmarkValues(b *testing.B) {
	const depth, keys = 16, 512
	for _, text := range []string{
		"INCR k%d", "GET k%d", "SET k%d 5", "EXPIRE k%d 100", "INCREX k%d EX 100 ENX", "HINCRBY h%d count 1",
		"ZADD z%d 1760000000049 1760000000049", "ZREMRANGEBYSCORE z%d -inf 1", "ZCARD z%d", "LTRIM l%d 0 49", "LINDEX l%d -1",
	} {
		b.Run(strings.Fields(text)[0], func(b *testing.B) {
			ts := newTestServer(b)
			c := ts.client()
			batches := make([][]byte, keys/depth)
			for k := range keys {
				log, zset := []string{"RPUSH", fmt.Sprint("l", k)}, []string{"ZADD", fmt.Sprint("z", k)}
				for i := range 50 {
					at := fmt.Sprint(1_760_000_000_000 + i)
					log, zset = append(log, at), append(zset, at, at)
				}
				c.do(log...)
				c.do(zset...)
				c.do("HSET", fmt.Sprint("h", k), "start", "1760000000", "end", "1760003600", "count", "1")
				batches[k/depth] = append(batches[k/depth], encode(strings.Fields(fmt.Sprintf(text, k))...)...)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%depth == 0 {
					c.conn.out = c.conn.out[:0]
					c.s.Data(batches[i/depth%len(batches)])
				}
			}
		})
	}
}

// BenchmarkPipelines measures a decision in a pipeline whose commands differ only in their keys,
// from the bytes read to the bytes to write, on 10 000 keys.
func BenchmarkPipelines(b *testing.B) {
	for _, text := range []string{
		"CL.THROTTLE %s 100 100 360000", "GCRA %s 100 100 360000", "RL.TAKE %s GCRA 100/h", "RL.TAKE %s SLIDING 100/h COST 2", "RL.PEEK %s GCRA 100/h",
		"RL.TAKE %[1]s GCRA 50/h COST 2|RL.TAKE x%[1]s GCRA 100/m",
	} {
		for _, depth := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/P=%d", strings.Fields(text)[0]+strings.Fields(text)[2], depth), func(b *testing.B) {
				ts := newTestServer(b)
				c := ts.client()
				var batches [][]byte
				for i := 0; i < 10_000; i += depth {
					var batch []byte
					for k := range depth {
						line := fmt.Sprintf(text, fmt.Sprintf("user:%07d", (i+k)*7919%10_000))
						if first, second, ok := strings.Cut(line, "|"); ok { // in turn
							line = []string{first, second}[k%2]
						}
						batch = append(batch, encode(strings.Fields(line)...)...)
					}
					batches = append(batches, batch)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if i%depth == 0 {
						c.conn.out = c.conn.out[:0]
						c.s.Data(batches[i/depth%len(batches)])
					}
				}
			})
		}
	}
}

// BenchmarkHolds measures a take, a take whose id counts once, and an estimate that is held and then settled. An operation is one
// take, or one hold with its commit; each has an id that is not known. There is one id for each of 10 000 keys, which has had others before,
// or the first of a key that is there, or there are some thousand on one key: a settled id is known for 30 s, and one that counts once for 60.
func BenchmarkHolds(b *testing.B) {
	const most = "FIXED 1000000000/h COST 9"
	for _, on := range []struct {
		name  string
		keys  int
		ids   int
		apart time.Duration // of two operations
		there bool          // the keys are there before
	}{{"keys", 10_000, 10_000, 7 * time.Millisecond, false}, {"first", 40_000, 40_000, 100 * time.Microsecond, true}, {"one", 1, 16_384, 15 * time.Millisecond, false}} {
		for _, op := range []struct{ name, text string }{
			{"take", "RL.TAKE %[1]s " + most},
			{"once", "RL.TAKE %[1]s " + most + " ONCE %[2]s"},
			{"pair", "RL.HOLD %[1]s " + most + " TTL 1m ID %[2]s|RL.COMMIT %[1]s ID %[2]s COST 5"},
		} {
			for _, depth := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("%s/%s/P=%d", on.name, op.name, depth), func(b *testing.B) {
					ts := newTestServer(b)
					c := ts.client()
					var commands [][]byte
					for i := range on.ids {
						for line := range strings.SplitSeq(op.text, "|") {
							line = fmt.Sprintf(line+"%.0[1]s%.0[2]s", fmt.Sprintf("user:%07d", i*7919%on.keys), fmt.Sprintf("request-%08d", i))
							commands = append(commands, encode(strings.Fields(line)...))
						}
					}
					each := len(commands) / on.ids
					var reads [][]byte
					for some := range slices.Chunk(commands, depth) {
						reads = append(reads, slices.Concat(some...))
					}
					for i := 0; on.there && i < on.keys; i++ {
						c.conn.out = c.conn.out[:0]
						c.s.Data(encode(strings.Fields(fmt.Sprintf("RL.TAKE user:%07d "+most, i))...))
					}
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						for n := i * each; n < (i+1)*each; n++ {
							if n%depth == 0 {
								ts.clock.Advance(on.apart * time.Duration(depth) / time.Duration(each))
								c.conn.out = c.conn.out[:0]
								c.s.Data(reads[n/depth%len(reads)])
							}
						}
					}
					if bytes.Contains(c.conn.out, []byte("\n-")) || bytes.HasPrefix(c.conn.out, []byte("-")) {
						b.Fatalf("%q", c.conn.out)
					}
				})
			}
		}
	}
}

// BenchmarkDenied measures a decision that denies, in a pipeline of 16 on 1000 keys, while denials are kept or not.
func BenchmarkDenied(b *testing.B) {
	for _, kept := range []string{"0", "4096"} {
		b.Run(kept, func(b *testing.B) {
			const depth, keys = 16, 1000
			ts := newTestServer(b, "recent-denials "+kept)
			c := ts.client()
			batches := make([][]byte, keys)
			for k := range keys * depth {
				batches[k/depth] = append(batches[k/depth], encode("RL.TAKE", fmt.Sprint("user:", k*7919%keys), "GCRA", "1/d")...)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%depth == 0 {
					ts.clock.Advance(1e6)
					c.conn.out = c.conn.out[:0]
					c.s.Data(batches[i/depth%len(batches)])
				}
			}
		})
	}
}

// BenchmarkGroups measures a decision on a node that leads all groups, from the bytes read until its reply is let go. The keys have all slots. Some
// sessions send a pipeline each, then every group is drained once, and then the sessions are woken.
func BenchmarkGroups(b *testing.B) {
	const sessions, keys = 16, 10_000
	for _, n := range []int{1, 16} {
		for _, depth := range []int{16, 64} {
			b.Run(fmt.Sprintf("%d/P=%d", n, depth), func(b *testing.B) {
				var ts *testServer
				if n == 1 {
					ts = newTestServer(b)
				} else {
					ts = newGroups(b, n)
				}
				var all []*drained
				for _, g := range ts.Groups() {
					d := &drained{}
					d.turn.Store(1)
					g.Keeper.Source = d.source()
					all = append(all, d)
				}
				var clients [sessions]*testClient
				for i := range clients {
					clients[i] = ts.client()
				}
				var batches [][]byte
				for i := 0; i < keys; i += depth {
					var batch []byte
					for k := range depth {
						batch = append(batch, encode("RL.TAKE", fmt.Sprintf("user:%07d", (i+k)*7919%keys), "GCRA", "100/h")...)
					}
					batches = append(batches, batch)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if i%depth != 0 {
						continue
					}
					c := clients[i/depth%sessions]
					c.conn.out = c.conn.out[:0]
					c.s.Data(batches[i/depth%len(batches)])
					if i/depth%sessions < sessions-1 {
						continue
					}
					for _, d := range all {
						d.drain()
					}
					for _, c := range clients {
						<-c.conn.woken
						c.s.Resume()
						if len(c.conn.out) == 0 {
							b.Fatal("no reply")
						}
					}
				}
			})
		}
	}
}

// drained keeps replies as a primary does: until the drain after them.
type drained struct {
	turn    atomic.Uint64
	mu      sync.Mutex // guards all below
	begun   uint64
	waiters group.Waiters
}

func (d *drained) source() *durable.Source {
	return &durable.Source{
		Turn: d.turn.Load,
		Wait: func(turn uint64, fn func(error)) bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.waiters.Add(d.begun+1, fn)
			return true
		},
		Holds: func() bool { return true },
		Kick:  func() { d.waiters.Kick() },
	}
}

// drain lets go all that waits.
func (d *drained) drain() {
	d.mu.Lock()
	d.begun++
	told := d.waiters.Until(d.begun)
	d.mu.Unlock()
	told.Tell(nil)
}
