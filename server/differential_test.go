package server

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/internal/testlengths"
	"limitdb/resp"
	"limitdb/server/values"
)

// The differential test runs random commands on Debian's redis-server and on this server, and compares the
// replies. Time is virtual: the test advances this server's clock, and moves the expiry of every key in Redis
// forward by the same time. All times to live differ by at least 10 s, so the duration of the test does
// not matter.

// realRedis is a redis-server of this test.
type realRedis struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

func startRedis(t testing.TB) *realRedis {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("LIMITDB_E2E") == "1" {
			t.Fatal("redis-server is not installed (scripts/install-test-tools installs it)")
		}
		t.Skip("redis-server is not installed (scripts/install-test-tools installs it)")
	}
	dir, err := os.MkdirTemp("", "redis") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return &realRedis{t, conn, bufio.NewReaderSize(conn, 1<<16)}
		}
		if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
}

// do sends commands in one pipeline and returns their replies.
func (r *realRedis) do(commands ...[]string) []resp.Value {
	r.t.Helper()
	var b []byte
	for _, words := range commands {
		b = append(b, encode(words...)...)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := r.conn.Write(b)
		sent <- err
	}()
	return readReplies(r.t, r.r, len(commands), sent)
}

func readReplies(t testing.TB, r *bufio.Reader, n int, sent <-chan error) []resp.Value {
	t.Helper()
	out := make([]resp.Value, n)
	for i := range out {
		var err error
		if out[i], err = resp.ReadReply(r, 64<<20); err != nil {
			t.Fatalf("reply %d of %d: %v", i, n, err)
		}
	}
	if sent != nil {
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// pipeline sends commands to this server in one pipeline.
func (c *testClient) pipeline(commands ...[]string) []resp.Value {
	c.t.Helper()
	c.conn.take()
	for _, words := range commands {
		c.s.Data(encode(words...))
	}
	return readReplies(c.t, bufio.NewReader(bytes.NewReader(c.conn.take())), len(commands), nil)
}

// a twin is one command for both servers. An absolute time in it differs between them.
type twin struct {
	ours, redis []string
	render      func(v resp.Value, base int64) string
}

// twins makes random commands.
type twins struct {
	*rand.Rand
	lengths    testlengths.Lengths
	counter    int64 // makes every time to live different
	now, other int64 // Unix seconds of this server and of Redis
}

const twinPeriod = 1_000_000 // seconds; virtual time moves by multiples of it

// ttl returns a time to live in seconds.
func (g *twins) ttl() int64 {
	g.counter++
	return int64(g.IntN(4))*twinPeriod + 10*g.counter
}

func (g *twins) pick(words ...string) string { return words[g.IntN(len(words))] }

func (g *twins) key() string {
	if g.IntN(10) == 0 {
		return g.pick(allKeys()...)
	}
	return g.pick("a", "b", "c", "d", "e", "f")
}

// text returns a value, often a number.
func (g *twins) text() string {
	switch g.IntN(10) {
	case 0, 1, 2:
		return strconv.Itoa(g.IntN(200) - 100)
	case 3:
		return g.pick("9223372036854775807", "-9223372036854775808", "9223372036854775808", "9223372036854775806")
	case 4:
		return g.pick("", " 1", "1 ", "+1", "01", "-0", "0x10", "1e3", "1.5", "-.25", "3.", "inf", "-inf", "nan", "1e400", "1e5000", "0.1", "5e-320")
	case 5:
		if g.IntN(2) == 0 {
			return g.long()
		}
		return strings.Repeat("x", g.IntN(100))
	case 6:
		return strconv.FormatFloat(g.NormFloat64()*1000, 'g', g.IntN(17)+1, 64)
	default:
		return g.pick("foo", "bar", "Hello World", "\x00\xff\r\n", "10", "0", "7")
	}
}

// index returns an index, sometimes a huge one.
func (g *twins) index() string {
	if g.IntN(30) == 0 {
		return g.pick("9223372036854775807", "-9223372036854775808", "4294967296", "-2147483649")
	}
	return strconv.Itoa(g.IntN(24) - 12)
}

// maybe returns words, or nothing.
func (g *twins) maybe(words ...string) []string {
	if g.IntN(2) == 0 {
		return nil
	}
	return words
}

// plain is a command that is the same for both servers.
func plain(words ...string) twin { return twin{ours: words, redis: words} }

// with appends words to a command.
func (w twin) with(words ...string) twin {
	w.ours = append(slices.Clone(w.ours), words...)
	w.redis = append(slices.Clone(w.redis), words...)
	return w
}

// at appends an absolute time in seconds after now, in units of so many ms.
func (g *twins) at(w twin, after, unit int64) twin {
	w.ours = append(slices.Clone(w.ours), strconv.FormatInt((g.now+after)*1000/unit, 10))
	w.redis = append(slices.Clone(w.redis), strconv.FormatInt((g.other+after)*1000/unit, 10))
	return w
}

// expiry appends one of the options that set an expiry.
func (g *twins) expiry(w twin) twin {
	switch g.IntN(8) {
	case 0, 1:
		return w.with("EX", strconv.FormatInt(g.ttl(), 10))
	case 2, 3:
		return w.with("PX", strconv.FormatInt(g.ttl()*1000, 10))
	case 4:
		return g.at(w.with("EXAT"), g.ttl()-twinPeriod, 1000)
	case 5:
		return g.at(w.with("pxat"), g.ttl()-twinPeriod, 1)
	case 6:
		return w.with(g.pick("EX", "PX", "EXAT", "PXAT"), g.pick("0", "-1", "9223372036854775807", "x", "", "9223372036854775808"))
	}
	return w.with(g.pick("EX", "PX", "KEEPTTL", "PERSIST"))
}

// times renders a time to live, or an absolute time after base, so that small differences do not show.
func times(unit int64, absolute bool) func(v resp.Value, base int64) string {
	return func(v resp.Value, base int64) string {
		if v.Kind == ':' && v.Int < -2 { // a script has no int64
			return "after 2262"
		}
		if v.Kind != ':' || v.Int < 0 {
			return line(v)
		}
		n := v.Int
		if absolute {
			n -= base * 1000 / unit
		}
		if n >= (values.LastExpiry-base*1000)/unit-twinPeriod {
			return "after 2262" // where limitdb's times end
		}
		return "about " + strconv.FormatInt((n*unit+5000)/10000*10, 10) + " s"
	}
}

// next returns the next commands: mostly one, sometimes a transaction or a script.
func (g *twins) next() []twin {
	switch g.IntN(40) {
	case 0:
		return g.transaction()
	case 1, 2:
		return []twin{g.one().scripted()}
	case 3:
		return []twin{g.mangled()}
	case 4, 5:
		return g.growing()
	}
	return []twin{g.one()}
}

// transaction returns the commands of a transaction, sometimes with keys that are watched, and changed.
func (g *twins) transaction() (all []twin) {
	if g.IntN(2) == 0 {
		all = append(all, plain("WATCH", g.key(), g.key()))
		for range g.IntN(3) {
			all = append(all, g.one())
		}
	}
	all = append(all, plain("MULTI"))
	var parts []twin
	for range g.IntN(6) {
		w := g.one()
		if g.IntN(5) == 0 {
			w = w.scripted()
		}
		parts = append(parts, w)
		all = append(all, twin{ours: w.ours, redis: w.redis})
	}
	if g.IntN(10) == 0 {
		all = append(all, plain(g.pick("MULTI", "WATCH", "UNWATCH", "DISCARD")))
	}
	exec := plain(g.pick("EXEC", "EXEC", "EXEC", "EXEC", "DISCARD"))
	exec.render = func(v resp.Value, base int64) string {
		if v.Null || len(v.Elems) < len(parts) {
			return line(v)
		}
		out := []string{}
		for i, e := range v.Elems {
			var w twin
			if i < len(parts) {
				w = parts[i]
			}
			out = append(out, w.line(e, base))
		}
		return strings.Join(out, ", ")
	}
	return append(all, exec, plain("UNWATCH"))
}

// scripted returns the command as a script runs it.
func (w twin) scripted() twin {
	of := func(words []string) []string {
		return append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, words...)
	}
	return twin{ours: of(w.ours), redis: of(w.redis), render: w.render}
}

// line renders a reply to the command.
func (w twin) line(v resp.Value, base int64) string {
	if w.render != nil {
		return w.render(v, base)
	}
	const compiling = "-ERR Error compiling script" // what follows are the words of the compiler
	text := line(v)
	switch {
	case strings.HasPrefix(text, compiling):
		return compiling
	case slices.ContainsFunc(w.ours, func(word string) bool { return strings.HasPrefix(word, "Z") }):
		// Redis keeps the sign of a score of -0 in a set with long members, and forgets it in another.
		return strings.ReplaceAll(text, `"-0"`, `"0"`)
	}
	return text
}

func (g *twins) one() twin {
	makers := []func() twin{
		g.stringRead, g.stringWrite, g.stringWrite, g.counterWrite, g.expireWrite, g.expireRead, g.keyspace,
		g.sortedSetRead, g.sortedSetWrite, g.sortedSetWrite, g.hashOp, g.hashOp, g.listOp, g.listOp, g.setOp,
	}
	return makers[g.IntN(len(makers))]()
}

// allKeys are the keys of the test.
func allKeys() []string {
	return strings.Fields("a b c d e f z1 z2 h1 h2 l1 l2 s1 s2")
}

// dump returns the commands that read all keys at the end of each sequence.
func dump() (all []twin) {
	for _, k := range allKeys() {
		ttl := plain("PTTL", k)
		ttl.render = times(1, false)
		members := plain("SMEMBERS", k)
		members.render = anyOrder
		hash := plain("HGETALL", k)
		hash.render = anyOrder
		all = append(all, plain("TYPE", k), ttl, plain("GET", k), plain("ZRANGE", k, "0", "-1", "WITHSCORES"), hash, plain("LRANGE", k, "0", "-1"), members)
	}
	return all
}

// advance moves both servers' time. It also corrects for the time that has passed by itself in Redis: every time to live is a multiple of ten seconds.
func (d *differential) advance(g *twins) {
	by := int64(1+g.IntN(2)) * twinPeriod
	d.ts.clock.Advance(time.Duration(by) * time.Second)
	d.ts.engine.Sweep(d.ts.clock.Now(), 1<<20) // DBSIZE counts keys that have expired, as it does in Redis
	g.now, g.other = g.now+by, time.Now().Unix()
	var ask, set [][]string
	for _, k := range allKeys() {
		ask = append(ask, []string{"PTTL", k})
	}
	for i, v := range d.redis.do(ask...) {
		if v.Int >= 0 {
			set = append(set, []string{"PEXPIRE", ask[i][1], strconv.FormatInt((v.Int+5000)/10000*10000-by*1000, 10)})
		}
	}
	d.redis.do(set...)
}

// differential is both servers.
type differential struct {
	t     *testing.T
	ts    *testServer
	ours  *testClient
	redis *realRedis
}

// compare runs commands on both, and compares the replies.
func (d *differential) compare(g *twins, seed uint64, all []twin) {
	d.t.Helper()
	ours, redis := make([][]string, len(all)), make([][]string, len(all))
	for i := range all {
		ours[i], redis[i] = all[i].ours, all[i].redis
	}
	a, b := d.ours.pipeline(ours...), d.redis.do(redis...)
	for i, w := range all {
		if x, y := w.line(a[i], g.now), w.line(b[i], g.other); x != y {
			var before strings.Builder
			for j := max(0, i-60); j < i; j++ {
				fmt.Fprintf(&before, "  %q -> %s\n", ours[j], line(b[j]))
			}
			d.t.Fatalf("seed %d: %q\n%s  ours  %s\n  Redis %s", seed, ours[i], before.String(), x, y)
		}
	}
}

//test:norace
func TestRepliesAreThoseOfRedis(t *testing.T) {
	t.Parallel()
	d := &differential{t: t, redis: startRedis(t)}
	total, commands := runFor(t), 20_000
	if os.Getenv("LIMITDB_LONG") == "1" {
		commands = 1_200_000
	}
	first, _ := strconv.ParseUint(cmp.Or(os.Getenv("RAPID_SEED"), fmt.Sprint(rand.Uint64())), 0, 64)
	if s := os.Getenv("LIMITDB_SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
		total, commands = 0, 1
	}
	lengths := testlengths.Read(t, longest)
	t.Logf("the first seed is %d (LIMITDB_SEED repeats one)", first)
	begin, compared := time.Now(), 0
	part := &scope{TB: t}
	defer part.end()
	for seed := first; commands > 0 || time.Since(begin) < total; seed++ {
		if (seed-first)%20 == 0 { // before virtual time comes to its end
			part.end()
			d.ts = part.server()
			d.ours = d.ts.client()
		}
		g := &twins{Rand: rand.New(rand.NewPCG(seed, 0)), lengths: lengths}
		g.now = d.ts.clock.Now() / int64(time.Second)
		g.other = time.Now().Unix()
		hello := [][]string{{"HELLO", strconv.Itoa(2 + int(seed%2))}, {"FLUSHALL"}}
		d.ours.pipeline(hello...)
		d.redis.do(hello...)
		for range 20 {
			var all []twin
			for range 50 {
				all = append(all, g.next()...)
			}
			d.compare(g, seed, all)
			d.scans(g, seed)
			d.advance(g)
			commands -= len(all)
			compared += len(all)
		}
		d.compare(g, seed, dump())
	}
	t.Logf("%d commands", compared)
}
