package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"limitdb/engine"
	"limitdb/hold"
	"limitdb/internal/journal"
	"limitdb/internal/testlengths"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/spec"
	"limitdb/value"
)

// Every command of the command table, with arguments whose lengths are about the constants of the code.
//
// Commands on keys run on two servers, one by one here, and in EXEC, in a script or without a client there. Their
// replies must be the same, and so must their keys. What the journal of the first server gives must be its table. From
// time to time the second server goes on from that, as after a restart. The differential test compares the same
// lengths with Redis.
//
// Commands that change their client or their server run on a third server, which is soon replaced. They may
// reply with anything that is a reply.

// runFor returns for how long the tests with random commands run, 0 for the default.
func runFor(t *testing.T) time.Duration {
	s := os.Getenv("LIMITDB_RUN")
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// purge is left out. Its goroutine collects garbage, and might outlive the test.
const purge = "memory|purge"

//test:norace
func TestEveryCommand(t *testing.T) {
	t.Parallel()
	total, rounds := runFor(t), 12
	if os.Getenv("LIMITDB_LONG") == "1" {
		rounds = 1000
	}
	seed := rand.Uint64()
	if s := os.Getenv("RAPID_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	if s := os.Getenv("LIMITDB_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
		total, rounds = 0, 1
	}
	lengths := testlengths.Read(t, 2<<20)
	begin, ran, kinds := time.Now(), map[string]int{}, map[limit.Kind]int{}
	lacks := func() bool { // whether one kind was compared only with an expiry, or only without one
		return slices.ContainsFunc(comparedKinds(), func(k limit.Kind) bool { return kinds[k] == 0 || kinds[k.Lasting()] == 0 })
	}
	whole := os.Getenv("LIMITDB_SEED") == ""
	for most := rounds + 50; rounds > 0 || time.Since(begin) < total || whole && most > 0 && lacks(); rounds, most = rounds-1, most-1 {
		r := &everyCommand{t: t, seed: seed, ran: ran, kinds: kinds, lengths: lengths}
		r.round()
		if t.Failed() {
			return
		}
		seed++
	}
	n := 0
	for _, cmd := range allCommands().All {
		n += ran[cmd.Full]
		if ran[cmd.Full] == 0 && cmd.Full != purge && os.Getenv("LIMITDB_SEED") == "" && len(cmd.Subs) == 0 {
			t.Errorf("%s never ran", cmd.Full)
		}
	}
	t.Logf("%d commands", n)
	for _, k := range comparedKinds() {
		if whole && (kinds[k] == 0 || kinds[k.Lasting()] == 0) {
			t.Errorf("kind %d: %d that expire, %d that do not", k, kinds[k], kinds[k.Lasting()])
		}
	}
}

// comparedKinds are the kinds of states of which some must be compared.
func comparedKinds() []limit.Kind {
	return []limit.Kind{limit.STRING, limit.LONGSTRING, limit.SORTEDSET, limit.HASH, limit.LIST, limit.SET, limit.NUMBERS}
}

// everyCommand is a run of random commands.
type everyCommand struct {
	t       *testing.T
	seed    uint64
	lengths testlengths.Lengths
	ran     map[string]int     // how often each command ran
	kinds   map[limit.Kind]int // how many keys of each kind were compared

	g      *anyWords
	twins  *twins
	part   *scope // of this round
	a, b   *testServer
	ca, cb *testClient
	log    *replayed
	done   []string // the last commands
}

// round begins anew, and runs some batches of commands.
func (r *everyCommand) round() {
	defer func() {
		if p := recover(); p != nil {
			r.t.Logf("LIMITDB_SEED=%d: %v after\n%s", r.seed, p, strings.Join(r.done, "\n"))
			panic(p)
		}
	}()
	of := rand.New(rand.NewPCG(r.seed, 0))
	r.part = &scope{TB: r.t}
	defer r.part.end()
	r.twins = &twins{Rand: of, lengths: r.lengths, now: testStart / 1e9}
	r.g = &anyWords{Rand: of, lengths: r.lengths, now: testStart / 1e9}
	r.a, r.b = r.server(), r.server()
	if n := []int{0, 2, 4, 64}[of.IntN(4)]; n > 0 { // whose keys are divided among groups
		r.b = r.prepared(newGroups(r.part, n, "client-query-buffer-limit 1gb"))
	}
	r.ca, r.cb = r.a.client(), r.b.client()
	for _, c := range []*testClient{r.ca, r.cb} {
		c.conn.turn = time.Hour
	}
	r.log = r.a.replayed()
	for _, pair := range r.a.registry.Get("*") {
		r.g.configs = append(r.g.configs, pair.Name)
	}
	rows := r.a.table.All
	for i := range 40 {
		r.batch(rows)
		if of.IntN(3) == 0 {
			r.fill()
		}
		r.advance()
		if r.compareStates(); i%10 == 9 {
			r.restart()
		}
		if r.t.Failed() {
			return
		}
	}
	r.wild(rows)
}

// server starts a server with rules.
func (r *everyCommand) server() *testServer {
	return r.prepared(r.part.server("client-query-buffer-limit 1gb"))
}

// prepared gives a server rules.
func (r *everyCommand) prepared(ts *testServer) *testServer {
	ts.rulesAre(shopRules(r.t))
	ts.rules.SetSecret([16]byte{})
	return ts
}

func (r *everyCommand) advance() {
	d := time.Duration(r.g.Int64N(int64(r.g.pickInt(100, 1e6, 1e9, 100e9))))
	r.a.clock.Advance(d)
	r.b.clock.Advance(d)
	r.g.now = r.a.clock.Now() / 1e9
	r.twins.now = r.g.now
}

// comparable reports whether a command replies with the same on both servers, and needs no client.
func (r *everyCommand) comparable(w []string) bool {
	cmd := r.a.table.find([]byte(w[0]))
	if cmd == nil {
		return false
	}
	cmd, text := cmd.resolve(toBytes(w))
	if text != "" || cmd == nil || !cmd.ArityOK(len(w)) || cmd.Flags&spec.PubSub != 0 || slices.Contains(w[1:], "WAIT") {
		return false
	}
	if len(w) > 1024 || slices.ContainsFunc(w, func(word string) bool { return len(word) > value.MaxString }) {
		return false // the reader refuses it, so a script and EXEC have other words for it
	}
	if r.b.several() && !group.OneSlot(toBytes(r.b.keysOf(w))) {
		return false
	}
	switch cmd.Full {
	case "watch", "memory|usage", "debug|object", "rl.info": // for one client, or with the size of a record in the table
		return false
	case "eval", "eval_ro", "rl.check":
		return true
	}
	return cmd.HasKeys() || strings.HasPrefix(cmd.Full, "flush") && r.g.IntN(20) == 0
}

// some returns some commands that can be compared.
func (r *everyCommand) some(rows []*spec.Command) (all [][]string) {
	for len(all) < 1+r.g.IntN(40) {
		var next [][]string
		switch r.g.IntN(4) {
		case 0:
			for _, w := range r.twins.growing() {
				next = append(next, w.ours)
			}
		case 1:
			next = append(next, r.twins.one().ours)
		default:
			next = append(next, r.g.command(rows[r.g.IntN(len(rows))]))
		}
		for _, w := range next {
			if w = r.named(w); w != nil && r.comparable(w) {
				all = append(all, w)
				r.note(w)
			}
		}
	}
	return all
}

// named returns a command for a server with several groups, whose scripts must name their keys; nil if it has none for that.
func (r *everyCommand) named(w []string) []string {
	const callsIt = 3 // words before the command that the script calls
	switch cmd := strings.ToUpper(w[0]); {
	case !r.b.several() || !strings.HasPrefix(cmd, "EVAL"):
		return w
	case !strings.HasPrefix(cmd, "EVAL_RO") && cmd != "EVAL", len(w) <= callsIt, w[1] != "return redis.pcall(unpack(ARGV))", w[2] != "0":
		return nil
	}
	called := w[callsIt:]
	if cmd, text := r.a.table.resolve(toBytes(called)); cmd == nil || text != "" {
		return w
	}
	keys := r.b.keysOf(called)
	return slices.Concat(w[:2], []string{strconv.Itoa(len(keys))}, keys, called)
}

// note keeps what is about to run, for the report.
func (r *everyCommand) note(w []string) {
	if cmd := r.a.table.find([]byte(w[0])); cmd != nil {
		if cmd, text := cmd.resolve(toBytes(w)); text == "" {
			r.ran[cmd.Full]++
		}
	}
	if len(r.done) == 40 {
		r.done = r.done[1:]
	}
	var short []string
	for _, word := range w[:min(len(w), 12)] {
		text := strconv.Quote(word)
		if len(word) > 40 {
			text = fmt.Sprintf("%.10q ×%d", word, len(word))
		}
		short = append(short, text)
	}
	r.done = append(r.done, strings.Join(short, " "))
}

func (r *everyCommand) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("LIMITDB_SEED=%d: %s\nafter\n%s", r.seed, fmt.Sprintf(format, args...), strings.Join(r.done, "\n"))
}

// replies runs commands in one pipeline.
func (r *everyCommand) replies(c *testClient, all [][]string) []resp.Value {
	var in []byte
	for _, w := range all {
		in = append(in, encode(w...)...)
	}
	out := make([]resp.Value, len(all))
	read := bufio.NewReader(strings.NewReader(c.all(string(in))))
	for i := range out {
		v, err := resp.ReadReply(read, 64<<20)
		if err != nil {
			r.fail("reply %d of %d, to %.300q: %v", i, len(all), all[i], err)
		}
		out[i] = v
	}
	return out
}

// batch runs commands on both servers.
func (r *everyCommand) batch(rows []*spec.Command) {
	all := r.some(rows)
	want := r.replies(r.ca, all)
	var got []resp.Value
	way := r.g.IntN(4)
	if r.b.several() && slices.ContainsFunc(all, func(w []string) bool { return strings.HasPrefix(strings.ToLower(w[0]), "flush") }) {
		way = 2 + way%2 // neither transactions nor scripts have all keys
	}
	switch way {
	case 0:
		parts := [][][]string{all}
		if r.b.several() { // their keys have several slots
			parts = nil
			for _, w := range all {
				parts = append(parts, [][]string{w})
			}
		}
		for _, part := range parts {
			v := r.replies(r.cb, slices.Concat([][]string{{"MULTI"}}, part, [][]string{{"EXEC"}}))
			if len(v[len(v)-1].Elems) != len(part) {
				r.fail("EXEC: %.300s", line(v[len(v)-1]))
			}
			got = append(got, v[len(v)-1].Elems...)
		}
	case 1: // whose replies are others
		for _, w := range all {
			if !strings.HasPrefix(strings.ToUpper(w[0]), "EVAL") {
				keys := r.b.keysOf(w)
				if len(keys) > 0 && strings.EqualFold(w[0], "RL.CHECK") { // no script can name the keys of rules, so it has another group
					r.replies(r.cb, [][]string{w})
					continue
				}
				w = slices.Concat([]string{"EVAL", "return redis.pcall(unpack(ARGV))", strconv.Itoa(len(keys))}, keys, w)
			}
			r.replies(r.cb, [][]string{w})
		}
		return
	case 2:
		for _, w := range all {
			got = append(got, r.b.alone(w...))
		}
	default:
		got = r.replies(r.cb, all)
	}
	for i, w := range all {
		if x, y := sameLine(want[i]), sameLine(got[i]); x != y {
			r.fail("%.300q\n%.300s\n%.300s", w, x, y)
		}
	}
}

// sameLine renders a reply in the same way for both protocols, one of which has pairs where the other has a flat list.
func sameLine(v resp.Value) string {
	if v.Null || v.Elems == nil {
		return line(v)
	}
	var out []string
	for _, e := range v.Elems {
		out = append(out, sameLine(e))
	}
	return strings.Join(out, " ")
}

// fill takes from a LOG at many times, or many leases, until their states are long, and gives some back.
func (r *everyCommand) fill() {
	g := r.g
	n, key := g.lengths.Draw(g.IntN, g.pickInt(100, 300, 1200)), g.pick("log", "log2")
	if g.IntN(2) == 0 {
		key = g.pick("lease", "lease2")
	}
	for i := range n {
		var w []string
		switch {
		case key[1] == 'o':
			w = []string{g.pick("RL.TAKE", "RL.TAKE", "RL.TAKE", "RL.REFUND"), key, "LOG", g.pick("65536/h", "65536/h", "1000/d"), "COST", strconv.Itoa(g.pickInt(1, 1, 1, 2, 300))}
		case g.IntN(3) > 0:
			w = []string{"RL.LEASE", key, "100000", g.pick("1h", "1m", "10s"), "ID", g.text("token")}
		default:
			w = []string{g.pick("RL.RELEASE", "RL.RENEW"), key, "ID", g.text("token"), "5m"}
			if w[0] == "RL.RELEASE" {
				w = w[:4]
			}
		}
		r.note(w)
		x, y := r.replies(r.ca, [][]string{w}), r.replies(r.cb, [][]string{w})
		if sameLine(x[0]) != sameLine(y[0]) {
			r.fail("%q: %s\n%s", w, sameLine(x[0]), sameLine(y[0]))
		}
		if g.IntN(4) > 0 {
			d := time.Duration(g.IntN(1_000_000))
			r.a.clock.Advance(d)
			r.b.clock.Advance(d)
		}
		if i%50 == 49 && g.IntN(2) == 0 {
			r.log.drain()
		}
	}
}

// live returns what the keys of an engine hold that have not expired, and the bare states, without revisions.
func live(t testing.TB, e *engine.Engine, now int64) (all, bare map[string]string) {
	t.Helper()
	var b journal.Buffer
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		cursor = e.Copy(now, cursor, &b)
	}
	all, bare = map[string]string{}, map[string]string{}
	for rest := b.Bytes; len(rest) > 0; {
		r, more, err := journal.Parse(rest)
		if err != nil {
			t.Fatal(err)
		}
		kind := limit.Kind(r.Kind).Restored()
		if rest = more; limit.Expires(kind, r.State) <= now {
			continue
		}
		key := string(r.Key)
		if kind == limit.HOLDS {
			key += " and beside it"
		}
		all[key] = string(rune(r.Kind)) + string(r.State)
		if kind == limit.HOLDS { // its index is by a seed of the server's own
			text := string(rune(kind))
			hold.Set(r.State).Each(now, func(e *hold.Entry) bool {
				text += fmt.Sprintf("%q %v %d %d %d %d %x\n", e.ID, e.Status, e.Until, e.Rest, e.Back, e.Amount, e.Limit)
				return true
			})
			bare[key] = text
			continue
		}
		state := bytes.Clone(r.State)
		if head := journal.HeadSize(byte(kind.Recorded(state))); head > 0 {
			journal.SetRevision(state[:head], 0)
		}
		bare[key] = string(rune(kind)) + string(state)
	}
	return all, bare
}

// compareStates compares the keys of both servers, and what the first one's journal gives. No handler may have panicked.
func (r *everyCommand) compareStates() {
	now := r.a.clock.Now()
	for _, ts := range []*testServer{r.a, r.b} {
		if n := ts.counters.panics.Load(); n > 0 {
			r.fail("%d handlers panicked", n)
		}
	}
	if r.g.IntN(2) == 0 {
		r.log.drain()
	}
	for range 2 { // a drain pays what is owed, which counts revisions
		r.log.drain()
	}
	all, bare := live(r.t, r.a.engine, now)
	replayed, _ := live(r.t, r.log.again, now)
	other := map[string]string{}
	for _, g := range r.b.keyed {
		_, part := live(r.t, g.Engine.Load(), now)
		for key, state := range part {
			other[key] = state
			if plain := strings.TrimSuffix(key, " and beside it"); r.b.several() && r.b.groupOf([]byte(plain)) != g {
				r.fail("%.40q is in the wrong group", key)
			}
		}
	}
	for _, state := range bare {
		kind, _ := utf8.DecodeRuneInString(state)
		r.kinds[limit.Kind(kind)]++
	}
	r.same("its journal", all, replayed)
	r.same("the second server", bare, other)
	if key, missed := r.log.again.Missed(now); missed {
		r.fail("a state of %q is missing", key)
	}
}

func (r *everyCommand) same(where string, want, got map[string]string) {
	for key, state := range want {
		if got[key] != state {
			r.fail("%.40q: %s has %d bytes %.80q, not %d bytes %.80q", key, where, len(got[key]), got[key], len(state), state)
		}
	}
	for key, state := range got {
		if _, ok := want[key]; !ok {
			r.fail("%.40q: %s has %d bytes %.80q, and the first server has no such key", key, where, len(state), state)
		}
	}
}

// restart has the second server go on from what the first one's journal gives.
func (r *everyCommand) restart() {
	of := map[*group.Group]*engine.Engine{}
	for _, g := range r.b.keyed {
		of[g] = engine.New(engine.Options{Seed: r.seed, Shards: 1 << r.g.IntN(5)})
	}
	var b journal.Buffer
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		cursor = r.log.again.Copy(r.b.clock.Now(), cursor, &b)
	}
	for rest := b.Bytes; len(rest) > 0; {
		rec, more, err := journal.Parse(rest)
		if err == nil {
			g := r.b.keyed[0]
			if r.b.several() {
				g = r.b.groupOf(rec.Key)
			}
			err = of[g].Restore([]journal.Record{rec}, 0, 1)
		}
		if err != nil {
			r.fail("%v", err)
		}
		rest = more
	}
	for g, e := range of {
		g.Lead(e, 0)
	}
}

// wild runs any commands, each on a client of its own, on a server of its own.
func (r *everyCommand) wild(rows []*spec.Command) {
	ts := r.server()
	c := ts.client()
	for range 300 {
		cmd := rows[r.g.IntN(len(rows))]
		if cmd.Full == purge {
			continue
		}
		w := r.g.command(cmd)
		if r.g.IntN(10) == 0 {
			w = w[:1+r.g.IntN(len(w))]
		}
		r.note(w)
		out := c.all(string(encode(w...)))
		if !c.s.pub.Monitor.Load() {
			read := bufio.NewReader(strings.NewReader(out))
			for {
				if _, err := resp.ReadReply(read, 64<<20); err == io.EOF {
					break
				} else if err != nil {
					r.fail("%.300q: a malformed reply: %v in %.200q", w, err, out)
				}
			}
		}
		if n := ts.counters.panics.Load(); n > 0 || strings.Contains(out, errInternal) {
			r.fail("%.300q: a handler panicked", w)
		}
		if !c.s.life.Open() || c.s.pending != nil || r.g.IntN(8) == 0 {
			ts.pass(time.Duration(r.g.Int64N(int64(time.Minute))))
			c.hangUp(io.EOF)
			c = ts.client()
		}
	}
}
