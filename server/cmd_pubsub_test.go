package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/pubsub"
)

// replies runs one command and renders all its replies.
func (c *testClient) replies(words ...string) string {
	c.t.Helper()
	return strings.ReplaceAll(c.raw(string(encode(words...))), "\r\n", " ")
}

func TestSubscribeReplies(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, step := range [][2]string{
		{"UNSUBSCRIBE", "*3 $11 unsubscribe $-1 :0 "},
		{"UNSUBSCRIBE a b", "*3 $11 unsubscribe $1 a :0 *3 $11 unsubscribe $1 b :0 "},
		{"SUBSCRIBE a b a", "*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2 *3 $9 subscribe $1 a :2 "},
		{"PING", "*2 $4 pong $0  "},
		{"PING hello", "*2 $4 pong $5 hello "},
		{"TTL x", "-ERR Can't execute 'ttl': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context "},
		{"PSUBSCRIBE a* a*", "*3 $10 psubscribe $2 a* :3 *3 $10 psubscribe $2 a* :3 "},
		{"SSUBSCRIBE z", "*3 $10 ssubscribe $1 z :1 "},
		{"PUBSUB NUMPAT", "-ERR Can't execute 'pubsub|numpat': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context "},
		{"PUBLISH a x", "-ERR Can't execute 'publish': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context "},
		{"SLOWLOG RESET", "-ERR Can't execute 'slowlog|reset': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context "},
		{"UNSUBSCRIBE a q", "*3 $11 unsubscribe $1 a :2 *3 $11 unsubscribe $1 q :2 "},
		{"PUNSUBSCRIBE", "*3 $12 punsubscribe $2 a* :1 "},
		{"UNSUBSCRIBE", "*3 $11 unsubscribe $1 b :0 "},
		{"PING", "*2 $4 pong $0  "}, // a shard channel is left
		{"SUNSUBSCRIBE", "*3 $12 sunsubscribe $1 z :0 "},
		{"PING", "+PONG "},
		{"SUBSCRIBE x", "*3 $9 subscribe $1 x :1 "},
		{"RESET", "+RESET "},
		{"PING", "+PONG "},
		{"HELLO 3", ""},
		{"UNSUBSCRIBE", ">3 $11 unsubscribe _ :0 "},
		{"SUBSCRIBE b a", ">3 $9 subscribe $1 b :1 >3 $9 subscribe $1 a :2 "},
		{"PING", "+PONG "},
		{"TTL x", ":-2 "},
		{"UNSUBSCRIBE", ">3 $11 unsubscribe $1 a :1 >3 $11 unsubscribe $1 b :0 "},
	} {
		if got := c.replies(strings.Fields(step[0])...); got != step[1] && step[1] != "" {
			t.Fatalf("%s\n got %q\nwant %q", step[0], got, step[1])
		}
	}
}

func TestPubSub(t *testing.T) {
	ts := newTestServer(t)
	c, sub, gone := ts.client(), ts.client(), ts.client()
	sub.replies("SUBSCRIBE", "news", "nest", "other")
	sub.replies("PSUBSCRIBE", "n*", "o*")
	sub.replies("SSUBSCRIBE", "shard")
	gone.replies("SUBSCRIBE", "news")
	gone.replies("PSUBSCRIBE", "n*")
	c.steps(ts,
		[2]string{"PUBSUB CHANNELS", `["nest" "news" "other"]`},
		[2]string{"PUBSUB CHANNELS ne*", `["nest" "news"]`},
		[2]string{"PUBSUB CHANNELS a b", "-ERR wrong number of arguments for 'pubsub|channels' command"},
		[2]string{"PUBSUB NUMSUB", "[]"},
		[2]string{"PUBSUB NUMSUB news nosuch nest", `["news" 2 "nosuch" 0 "nest" 1]`},
		[2]string{"PUBSUB NUMPAT", "2"},
		[2]string{"PUBSUB SHARDCHANNELS", `["shard"]`},
		[2]string{"PUBSUB SHARDNUMSUB shard news", `["shard" 1 "news" 0]`},
		[2]string{"PUBLISH quiet hello", "0"},
	)
	gone.hangUp(clients.ErrQuit)
	c.steps(ts, [2]string{"PUBSUB NUMSUB news", `["news" 1]`})
	c.do("HELLO", "3")
	if got := c.replies("PUBSUB", "NUMSUB", "news"); got != "*2 $4 news :1 " {
		t.Errorf("RESP3: %q", got)
	}
}

func TestSubscriptionsAreBounded(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("HELLO", "3")
	for i := range pubsub.MaxNames {
		c.replies("SUBSCRIBE", fmt.Sprint(i))
	}
	if got := c.replies("PSUBSCRIBE", "one*"); got != "-"+pubsub.ErrTooManyChannels+" " {
		t.Errorf("%q", got)
	}
	if got := c.replies("SUBSCRIBE", "5"); got != fmt.Sprintf(">3 $9 subscribe $1 5 :%d ", pubsub.MaxNames) { // it has that one
		t.Errorf("%q", got)
	}
	c.replies("UNSUBSCRIBE", "7")
	if got := c.replies("SUBSCRIBE", "x", "y"); got != fmt.Sprintf(">3 $9 subscribe $1 x :%d -%s ", pubsub.MaxNames, pubsub.ErrTooManyChannels) {
		t.Errorf("%q", got)
	}
	c.replies("UNSUBSCRIBE")
	long := strings.Repeat("x", pubsub.MaxBytes/2)
	c.replies("SUBSCRIBE", "a"+long[1:])
	c.replies("SUBSCRIBE", "b"+long[1:])
	if got := c.replies("SUBSCRIBE", "c"); got != "-"+pubsub.ErrTooManyChannels+" " {
		t.Errorf("%q", got)
	}
	if c.s.subs.Len() != 2 || c.s.subs.Bytes() != pubsub.MaxBytes || c.s.pub.SubCount() != 2 {
		t.Errorf("%d subscriptions of %d bytes", c.s.subs.Len(), c.s.subs.Bytes())
	}
}

// The memory of subscriptions counts towards maxmemory-clients.
func TestSubscriptionsAreAccounted(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("PING")
	idle := ts.clients.Bytes.Load()
	c.replies("SUBSCRIBE", "four", "fiver")
	two := ts.clients.Bytes.Load() - idle
	c.replies("UNSUBSCRIBE", "four")
	if one := ts.clients.Bytes.Load() - idle; one <= 5 || two != 2*one-1 {
		t.Errorf("%d bytes are counted for one name, %d for two", one, two)
	}
	c.do("RESET")
	if got := ts.clients.Bytes.Load() - idle; got != 0 {
		t.Errorf("%d bytes are counted after RESET", got)
	}
}

// A message goes to subscribers in steps, however many patterns there are and however long its channel is.
func TestPublishInSteps(t *testing.T) {
	ts := newTestServer(t, "proto-max-bulk-len 128kb")
	var heard []*testClient
	for i := range 4 {
		c := ts.client()
		words := []string{"PSUBSCRIBE", "*"}
		for k := range 500 {
			words = append(words, fmt.Sprintf("%d*%d*[a-c]", k, i))
		}
		c.raw(string(encode(words...)))
		heard = append(heard, c)
	}
	long := strings.Repeat("x", ts.topics.LongestChannel())
	if n := len(long); n < 8_000 || n > 9_000 {
		t.Errorf("2001 patterns allow %d bytes", n)
	}
	c := ts.client().tiny()
	for channel, yields := range map[string]int{"short": 2, long: 250} {
		c.conn.yields = 0
		if got := c.all(string(encode("PUBLISH", channel, "text"))); got != ":4\r\n" || c.conn.yields < yields {
			t.Errorf("%.10s: %q after %d turns", channel, got, c.conn.yields)
		}
		for _, h := range heard {
			if got, want := string(h.conn.take()), string(encode("pmessage", "*", channel, "text")); got != want {
				t.Errorf("%.10s: %.100q", channel, got)
			}
		}
	}
	c.conn.yields = 0
	if got, want := line(c.do("PUBLISH", long+"x", "text")), "-"+fmt.Sprintf(pubsub.ErrChannelForPatterns, len(long)); got != want || c.conn.yields > 0 {
		t.Errorf("%s after %d turns", got, c.conn.yields)
	}
	c.conn.turn = time.Hour
	if got := line(c.do("SPUBLISH", strings.Repeat("x", 1024), "text")); got != "0" { // no pattern is compared with it
		t.Error(got)
	}
	c.do("MULTI")
	c.do("PUBLISH", long, "text")
	if got := line(c.do("EXEC")); !strings.HasPrefix(got, "-ERR a transaction") {
		t.Errorf("in a transaction: %s", got)
	}
	for _, h := range heard {
		h.do("RESET")
	}
	if got, want := line(c.do("PUBLISH", strings.Repeat("x", pubsub.MaxBytes+1), "text")), "-"+pubsub.ErrLongChannel; got != want {
		t.Error(got)
	}
	if got := line(c.do("PUBLISH", strings.Repeat("x", pubsub.MaxBytes), "text")); got != "0" {
		t.Error(got)
	}
}

// A transaction sends to a bounded number of subscribers.
func TestPublishInExecIsBounded(t *testing.T) {
	ts := newTestServer(t)
	for range 300 {
		ts.client().do("SUBSCRIBE", "news")
	}
	c := ts.client()
	c.do("MULTI")
	for range 100 {
		c.do("PUBLISH", "news", "x")
	}
	if got := line(c.do("EXEC")); !strings.HasPrefix(got, "-ERR a transaction") {
		t.Errorf("30 000 messages: %.100s", got)
	}
}

// A pattern that comes or goes while a message is on its way does not change who else gets it.
func TestSearchWhilePatternsChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topics := new(pubsub.Topics)
		channel := []byte(strings.Repeat("x", pubsub.MaxBytes/4)) // a few patterns make a step
		var all []*pubsub.Subscriptions
		for i := range 20 {
			b := &pubsub.Subscriptions{Topics: topics, Owner: new(clients.Client)}
			b.Add(pubsub.Pattern, fmt.Append(nil, "*x", strings.Repeat("*", i)))
			all = append(all, b)
		}
		search, left := topics.Search(pubsub.Channel, channel), map[pubsub.Subscriber]int{}
		for step := 0; !search.Step(); step++ {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "who")
			all[i].Clear()
			left[all[i].Owner] = 1
			if rapid.Bool().Draw(t, "comes back") {
				all[i].Add(pubsub.Pattern, fmt.Append(nil, "*x", strings.Repeat("*", i)))
			}
		}
		got := map[pubsub.Subscriber]int{}
		for _, r := range search.All {
			got[r.Owner]++
		}
		for i, b := range all {
			if got[b.Owner] > 1 || got[b.Owner]+left[b.Owner] == 0 {
				t.Fatalf("subscriber %d: %d times", i, got[b.Owner])
			}
		}
	})
}

// After any commands, the counts are those of plain sets.
func TestSubscriptionsAgainstSets(t *testing.T) {
	ts := newTestServer(t)
	words := [pubsub.Kinds][2]string{{"SUBSCRIBE", "UNSUBSCRIBE"}, {"PSUBSCRIBE", "PUNSUBSCRIBE"}, {"SSUBSCRIBE", "SUNSUBSCRIBE"}}
	rapid.Check(t, func(rt *rapid.T) {
		c := ts.client()
		c.do("HELLO", "3")
		var model [pubsub.Kinds]map[string]bool
		for k := range model {
			model[k] = make(map[string]bool)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			kind := rapid.IntRange(0, int(pubsub.Kinds)-1).Draw(rt, "kind")
			end := rapid.Bool().Draw(rt, "end")
			names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bb", "ccc", "dddd"}), 0, 3).Draw(rt, "names")
			switch {
			case !end && len(names) == 0:
				continue
			case !end:
				c.raw(string(encode(append([]string{words[kind][0]}, names...)...)))
				for _, n := range names {
					model[kind][n] = true
				}
			default:
				c.raw(string(encode(append([]string{words[kind][1]}, names...)...)))
				if len(names) == 0 {
					clear(model[kind])
				}
				for _, n := range names {
					delete(model[kind], n)
				}
			}
			count, bytes := 0, 0
			for k := range model {
				var want []string
				for n := range model[k] {
					want = append(want, n)
					count++
					bytes += len(n)
				}
				slices.Sort(want)
				if got := c.s.subs.List(pubsub.Kind(k)); !slices.Equal(got, want) {
					rt.Fatalf("%s: %q, want %q", words[k][0], got, want)
				}
			}
			if c.s.subs.Len() != count || c.s.subs.Bytes() != bytes || c.s.pub.SubCount() != count {
				rt.Fatalf("count %d, bytes %d, published %d; want %d and %d", c.s.subs.Len(), c.s.subs.Bytes(), c.s.pub.SubCount(), count, bytes)
			}
		}
		if c.s.call.Proto != resp.RESP3 {
			rt.Fatal("HELLO 3 failed")
		}
		c.hangUp(clients.ErrQuit)
	})
}

// A message reaches the clients that subscribe to its channel or to a pattern that matches it.
func TestPublish(t *testing.T) {
	ts := newTestServer(t)
	c, two, three := ts.client(), ts.client(), ts.client()
	two.replies("SUBSCRIBE", "news")
	two.replies("SSUBSCRIBE", "news")
	three.do("HELLO", "3")
	three.replies("PSUBSCRIBE", "n?ws", "x*")
	heard := func(s *testClient) string { return strings.ReplaceAll(string(s.conn.take()), "\r\n", " ") }
	for _, step := range []struct{ command, reply, two, three string }{
		{"PUBLISH news hello", "2", "*3 $7 message $4 news $5 hello ", ">4 $8 pmessage $4 n?ws $4 news $5 hello "},
		{"SPUBLISH news hello", "1", "*3 $8 smessage $4 news $5 hello ", ""},
		{"PUBLISH xyz 1", "1", "", ">4 $8 pmessage $2 x* $3 xyz $1 1 "},
		{"PUBLISH none 1", "0", "", ""},
		{"MULTI", "OK", "", ""},
		{"PUBLISH news in", "QUEUED", "", ""},
		{"EXEC", "[2]", "*3 $7 message $4 news $2 in ", ">4 $8 pmessage $4 n?ws $4 news $2 in "},
		{"EVAL return{redis.call('PUBLISH','news','s'),redis.call('GET','undeclared')} 0", "[2 nil]", "*3 $7 message $4 news $1 s ", ">4 $8 pmessage $4 n?ws $4 news $1 s "},
		{"EVAL redis.call('PUBLISH','news','s')local\x00s='x'while\x00true\x00do\x00s=s..s\x00end 0", "-ERR", "", ""},
		{"CONFIG SET client-output-buffer-limit pubsub\x0064kb\x000\x000", "OK", "", ""},
	} {
		two.conn.take()
		three.conn.take()
		words := strings.Fields(step.command)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "\x00", " ")
		}
		if got := line(c.do(words...)); got != step.reply && !(step.reply == "-ERR" && strings.HasPrefix(got, step.reply)) {
			t.Errorf("%s: %s", step.command, got)
		}
		if a, b := heard(two), heard(three); a != step.two || b != step.three {
			t.Errorf("%s: %q, %q", step.command, a, b)
		}
	}
	before := ts.clients.Bytes.Load()
	two.conn.setPending(60 << 10)
	if c.do("PUBLISH", "news", "more"); ts.clients.Bytes.Load()-before < 60<<10 {
		t.Errorf("of 61440 bytes that are not read, %d are counted", ts.clients.Bytes.Load()-before)
	}
	two.conn.setPending(64<<10 + 1) // it does not read
	c.do("PUBLISH", "news", "more")
	if two.conn.reason() == nil || three.conn.reason() != nil {
		t.Errorf("closed for %v, %v", two.conn.reason(), three.conn.reason())
	}
}
