package server

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/spec"
)

// deposed is a node that leads and then does not any more, without having heard of it.
type deposed struct {
	*testServer
	p *primary
}

// newDeposed starts a node with keys of every kind, which then has lost its turn.
func newDeposed(t *testing.T) *deposed {
	ts, p := newNode(t)
	if _, err := ts.rules.Load([]byte("version: 1\nnamespaces: {shop: [{name: api, key: [user], limit: GCRA 1/h}]}")); err != nil {
		t.Fatal(err)
	}
	d := &deposed{ts, p}
	p.holds.Store(false)
	c := ts.client()
	for _, words := range []string{
		"SET text abc", "SET int 9223372036854775807", "RPUSH list a b", "SADD set a b", "HSET hash f abc n 9223372036854775807",
		"ZADD zset +inf a 2 b", "RL.TAKE limit GCRA 1/h", "RL.LEASE lease 1 1h ID me", "RL.TAKE log LOG 1/h",
	} {
		if v := c.do(strings.Fields(words)...); v.Err() != nil {
			t.Fatalf("%s: %v", words, v.Err())
		}
	}
	p.holds.Store(true)
	return d
}

// lose ends the turn for replies that wait, and reports whether there were any.
func (d *deposed) lose() bool {
	d.p.mu.Lock()
	waiting := d.p.waiting
	d.p.waiting = nil
	d.p.mu.Unlock()
	for _, fn := range waiting {
		fn(errors.New("another node leads"))
	}
	if len(waiting) == 0 {
		runtime.Gosched()
	}
	return len(waiting) > 0
}

// ask sends commands in one write, and returns what the client gets once the node knows that it does not lead.
func (d *deposed) ask(t *testing.T, in []byte) (got string) {
	t.Helper()
	c := d.client()
	got = c.raw(string(in))
	for range 1000 {
		switch {
		case d.lose(), c.s.yielded:
		case c.s.pending != nil && !c.s.yielded:
			<-c.conn.woken
		default:
			return got
		}
		c.s.Resume()
		got += string(c.conn.take())
	}
	t.Fatalf("%q has no end", in)
	return ""
}

// tells reports whether a reply tells the client what only a leader can know.
func tells(got string) bool {
	for _, quiet := range []string{"-UNKNOWNOUTCOME ", "-MOVED ", "-CLUSTERDOWN "} {
		if strings.HasPrefix(got, quiet) {
			return false
		}
	}
	return true
}

// A node that leads no longer, and has not heard of it, tells nobody what it believes to be the state: neither by a reply nor by an
// error. The test draws calls of every command that only a leader runs.
func TestDeposedLeaderTellsNothing(t *testing.T) {
	words := strings.Fields("text int list set hash zset limit lease log none f n a x 1 -1 0 2 GCRA 1/h LOG COST ID me 1h NX XX shop api user inf 99999999999999999999 1.5 enforce AT -inf PARTIAL")
	var silent []string // commands that gave no error
	var each func(c *command)
	each = func(c *command) {
		for i := range c.subs {
			each(&c.subs[i])
		}
		if !c.runs() || c.Flags&(spec.Write|spec.Readonly) == 0 {
			return
		}
		d := newDeposed(t)
		name := fnv.New64a()
		name.Write([]byte(c.Full))
		seed := rand.New(rand.NewPCG(1, name.Sum64())) // of its own, so that another command changes nothing here
		for range 150 {
			args := strings.Split(c.Full, "|")
			n := seed.IntN(6)
			if least := -c.Arity - len(args); least > 5 { // it has a long form
				n += least
			}
			for range n {
				args = append(args, words[seed.IntN(len(words))])
			}
			b := make([][]byte, len(args))
			for i, a := range args {
				b[i] = []byte(a)
			}
			if cmd, text := d.table.resolve(b); text != "" || cmd.Full != c.Full {
				continue
			}
			if got := d.ask(t, encode(args...)); tells(got) {
				t.Errorf("%s: %q", args, got)
				return
			}
		}
		d.p.holds.Store(false)
		if stats := d.client().do("INFO", "commandstats").Text; !regexp.MustCompile(`cmdstat_` + regexp.QuoteMeta(c.Full) + `:.*failed_calls=[1-9]`).MatchString(stats) {
			silent = append(silent, c.Full)
		}
	}
	for _, c := range newDeposed(t).table.rows {
		if c.Parent == nil {
			each(c)
		}
	}
	// These have no errors but for the number of their arguments; those of changes of rules are not counted.
	const never = "rl.reset rl.info rl.rules|set rl.rules|del rl.rules|load rl.rules|reload del unlink exists touch keys randomkey dbsize type " +
		"object|encoding object|freq object|idletime object|refcount ttl pttl expiretime pexpiretime setnx mget lolwut"
	for _, name := range silent {
		if !slices.Contains(strings.Fields(never), name) {
			t.Errorf("no error was drawn of %s", name)
		}
	}
}

// Errors that a random call seldom meets.
func TestDeposedLeaderTellsNoError(t *testing.T) {
	for _, test := range []struct {
		in   string
		full bool // there is no memory left
	}{
		{in: "RL.CHECK nowhere 1 user me"},
		{in: "RL.CHECK shop 1 user me COST 5"},
		{in: "RL.RULES GET nowhere"},
		{in: "RL.RULES STATS nowhere"},
		{in: "RL.RULES LIST nowhere"},
		{in: "RL.RULES RESET shop none user me"},
		{in: "RL.RULES MODE shop none shadow"},
		{in: "RL.RULES DEL nowhere none"},
		{in: "RL.RULES SET shop api {limit:nonsense}"},
		{in: "RL.RULES INFO shop none user me"},
		{in: "INCR text"},
		{in: "INCR int"},
		{in: "INCR list"},
		{in: "HINCRBY hash f 1"},
		{in: "HINCRBY hash n 1"},
		{in: "ZINCRBY zset -inf a"},
		{in: "RL.TAKE text GCRA 1/h"},
		{in: "RL.TAKE lease GCRA 1/h"},
		{in: "RL.RENEW lease ID you 1h"},
		{in: "RL.RELEASE lease ID you"},
		{in: "RL.IMPORT limit GCRA x"},
		{in: "RENAME none other"},
		{in: "COPY text int"},
		{in: "SCAN 999999999999"},
		{in: "EXPIRE limit 10"},
		{in: "SET limit v"},
		{in: "OBJECT ENCODING none"},
		{in: "MEMORY USAGE none"},
		{in: "SET other v", full: true},
		{in: "RL.TAKE other GCRA 1/h", full: true},
		{in: "RL.TAKEALL 2 other more GCRA 1/h GCRA 1/h", full: true},
		{in: "EVAL 'return redis.call([[set]],KEYS[1],1)' 1 other", full: true},
		{in: "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0"},
		{in: "EVAL 'return redis.call([[incr]],KEYS[1])' 1 text"},
		{in: "EVAL 'return redis.call([[lpush]],KEYS[1],1)' 1 text"},
		{in: "EVAL 'if redis.call([[get]],KEYS[1]) then error([[it is there]]) end' 1 text"},
		{in: "EVAL 'if redis.call([[get]],KEYS[1]) then return redis.error_reply([[it is there]]) end' 1 text"},
		{in: "EVAL_RO 'return redis.call([[hget]],KEYS[1],1)' 1 text"},
		{in: "MULTI\r\nINCR text\r\nEXEC"},
		{in: "MULTI\r\nRL.CHECK nowhere 1 user me\r\nEXEC"},
		{in: "MULTI\r\nSET other v\r\nEXEC", full: true},
		{in: "WATCH text\r\nMULTI\r\nGET text\r\nEXEC"},
	} {
		d := newDeposed(t)
		if test.full {
			d.engine.SetMaxMemory(1, engine.NoEviction)
		}
		in := []byte(test.in + "\r\n")
		got := strings.TrimPrefix(d.ask(t, in), "+OK\r\n")
		if got = strings.TrimPrefix(strings.TrimPrefix(got, "+OK\r\n"), "+QUEUED\r\n"); tells(got) {
			t.Errorf("%s: %q", test.in, got)
		}
		args := strings.Fields(test.in)
		if strings.Contains(test.in, "\r\n") || strings.Contains(test.in, "'") {
			continue
		}
		reply := make(chan []byte, 1)
		go func() {
			b := make([][]byte, len(args))
			for i, a := range args {
				b[i] = []byte(a)
			}
			out, err := d.Do(t.Context(), b...)
			if err != nil {
				out = resp.AppendError(nil, err.Error())
			}
			reply <- out
		}()
		for done := false; !done; {
			select {
			case out := <-reply:
				done = true
				if got := string(out); tells(got) && !strings.Contains(got, "needs a connection of its own") {
					t.Errorf("%s over HTTP: %q", test.in, got)
				}
			default:
				d.lose()
			}
		}
	}
	d := newDeposed(t)
	over := make(chan string, 1)
	go func() {
		out, err := d.Do(t.Context(), []byte("RL.RULES"), []byte("MODE"), []byte("shop"), []byte("none"), []byte("shadow"))
		over <- string(out) + fmt.Sprint(err)
	}()
	for done := false; !done; {
		select {
		case got := <-over:
			done = true
			if got != "-"+errUnknownOutcome+"\r\n<nil>" {
				t.Error(got)
			}
		default:
			d.lose()
		}
	}
}
