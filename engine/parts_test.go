package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"limitdb/internal/journal"
	"limitdb/internal/testlengths"
	"limitdb/limit"
)

// collections drives an engine with changes of a few collections and strings, long and short.
type collections struct {
	t       testing.TB
	rand    *rand.Rand
	lengths testlengths.Lengths
	e       *Engine
	now     int64
	late    int // changes that were applied where the state is, in its box
	// quiet ends all changes, so that what a copy has is not set right by later records.
	quiet bool
}

// valueState returns a state of a value.
func valueState(kind limit.Kind, expires int64, body []byte) []byte {
	var b []byte
	if _, timed, _ := kind.Value(); timed {
		b = binary.LittleEndian.AppendUint64(b, uint64(expires))
	}
	if journal.InParts(byte(kind)) {
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, body...)
}

// valueBody returns the body in a state of a value.
func valueBody(kind limit.Kind, state []byte) []byte {
	n := journal.HeadSize(byte(kind))
	if _, timed, _ := kind.Value(); n == 0 && timed {
		n = 8
	}
	return state[min(len(state), n):]
}

// stringOf returns the kind of a string with a body: one that changes in parts if it is long enough.
func stringOf(body []byte, lasting bool) limit.Kind {
	kind := limit.STRING
	if len(body) >= journal.MinChanged {
		kind = limit.LONGSTRING
	}
	if lasting {
		return kind.Lasting()
	}
	return kind
}

// step runs a transaction on some keys.
func (c *collections) step() {
	c.now += c.rand.Int64N(50)
	keys := make([][]byte, 1+c.rand.IntN(2))
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%d", c.rand.IntN(4))
	}
	type change struct {
		key  []byte
		op   int
		kind limit.Kind
		at   int
		ins  []byte
		dies int64
	}
	var all []change
	for range 1 + c.rand.IntN(3) {
		size := []int{0, 1, 20, c.lengths.Draw(c.rand.IntN, 1000), c.lengths.Draw(c.rand.IntN, 9000)}[c.rand.IntN(5)]
		key := keys[c.rand.IntN(len(keys))] // it mostly keeps its type
		kinds := []limit.Kind{limit.STRING, limit.LIST}
		all = append(all, change{
			key: key, op: c.rand.IntN(60),
			kind: kinds[(int(key[4])+c.rand.IntN(40)/39)%2] + limit.Kind(c.rand.IntN(2)),
			at:   c.rand.IntN(400), ins: bytes.Repeat([]byte{byte(c.rand.Uint32())}, size),
			dies: c.now + c.rand.Int64N(8000) - 10,
		})
	}
	if err := c.e.Update(c.now, keys, func(tx *Txn) error {
		for _, ch := range all {
			kind, state, err := tx.Get(ch.key)
			if err != nil {
				return err
			}
			body := slices.Clone(valueBody(kind, state))
			of, _, _ := kind.Value()
			isString := ch.kind <= limit.STRING+1
			switch {
			case ch.op == 0:
				_, err = tx.Delete(ch.key)
			case ch.op == 1 || kind == 0 || isString != (of < limit.SORTEDSET):
				body = append(ch.ins, "whole"...)
				if isString {
					ch.kind = stringOf(body, ch.kind%2 == 1)
				}
				err = tx.Put(ch.key, ch.kind, valueState(ch.kind, ch.dies, body))
			default:
				var splices []byte
				if ch.op > 9 { // else only the expiry changes
					at := min(ch.at, len(body))
					del := min(ch.at%7, len(body)-at)
					splices = journal.AppendSplice(nil, at, del, ch.ins)
					body = slices.Concat(body[:at], ch.ins, body[at+del:])
				}
				if isString {
					ch.kind = stringOf(body, ch.kind%2 == 1)
				}
				next := valueState(ch.kind, ch.dies, body)
				switch {
				case !journal.InParts(byte(ch.kind)):
					err = tx.Put(ch.key, ch.kind, next)
				case ch.op%2 == 0 && journal.InParts(byte(kind)): // where it is, if it is in a box
					err = tx.Splice(ch.key, ch.kind, next[:len(next)-len(body)], splices)
				default:
					err = tx.Change(ch.key, ch.kind, next, splices)
				}
				// Only at times: to look makes a change where it is a written state.
				if err == nil && ch.op%5 == 0 && ch.dies > tx.Now() && journal.InParts(byte(ch.kind)) {
					got, state, _ := tx.Get(ch.key)
					if n := journal.HeadSize(byte(ch.kind)); got != ch.kind || !bytes.Equal(state[n:], body) || !bytes.Equal(state[:n-4], next[:n-4]) {
						c.t.Fatalf("kind %d holds %.99x, want %.99x", got, state, next)
					}
				}
			}
			if err != nil {
				return err
			}
		}
		for i := range tx.items {
			if it := &tx.items[i]; it.Grow && it.changed {
				c.late++
			}
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
}

// limits takes from long LOGs and leases, and gives back, alone and in a transaction.
func (c *collections) limits() {
	c.now += c.rand.Int64N(50)
	log := fmt.Appendf(nil, "log:%d", c.rand.IntN(2))
	l := limit.Limit{Algorithm: limit.LOG, Max: 400, Period: 50_000}
	if c.rand.IntN(30) == 0 {
		l.Period *= 1 + c.rand.Int64N(5)
	}
	lease := limit.Lease{Limit: 1000, TTL: 1 + c.rand.Int64N(30_000), Weight: 1, ID: fmt.Appendf(nil, "holder %d", c.rand.IntN(80))}
	leases := fmt.Appendf(nil, "lease:%d", c.rand.IntN(2))
	release := func(now int64, state, dst []byte) ([]byte, error) {
		next, _, err := limit.ReleaseLease(lease.ID, state, now, dst)
		return next, err
	}
	var d limit.Decision
	var err error
	switch cost := 1 + c.rand.Int64N(3); c.rand.IntN(40) {
	case 0:
		if c.rand.IntN(20) == 0 {
			c.e.Reset(c.now, log)
		}
	case 1:
		err = c.e.Refund(c.now, log, &l, c.rand.Int64N(1+l.Max>>c.rand.IntN(40)), &d)
	case 2, 3:
		_ = c.e.Apply(c.now, leases, limit.LEASE, release)
	case 4, 5, 6, 7, 8, 9, 10, 11:
		err = c.e.Lease(c.now, leases, &lease, &d)
	case 12, 13, 14, 15: // all in one step
		err = c.e.Update(c.now, [][]byte{log, leases, []byte("key:1")}, func(tx *Txn) error {
			if err := tx.Step(leases, limit.LEASE, func(now int64, state, dst []byte) ([]byte, error) {
				return limit.TakeLease(&lease, state, now, dst, &d)
			}); err != nil {
				return err
			}
			if cost == 1 {
				return tx.Refund(log, &l, cost, &d)
			}
			return tx.Decide(log, &l, cost, &d)
		})
	case 16:
		if c.rand.IntN(20) == 0 {
			_, err = c.e.TakeFor(c.now, log, &Request{Limit: *perSecond(1), Cost: 1, Replace: true}, &d)
		}
	case 17, 18:
		_, err = c.e.TakeFor(c.now, log, &Request{Limit: l, Cost: cost, Replace: true}, &d)
	default:
		err = c.e.Take(c.now, log, &l, cost, &d)
	}
	if err != nil && err != ErrWrongType {
		c.t.Fatal(err)
	}
}

// some does some steps, and other things that change or drop keys.
func (c *collections) some() {
	for range c.rand.IntN(10) {
		if !c.quiet {
			c.anything()
		}
	}
}

func (c *collections) anything() {
	switch c.rand.IntN(200) {
	case 0:
		c.e.Flush()
	case 1:
		c.e.Sweep(c.now, 1<<20)
	case 2:
		c.e.Reset(c.now, []byte("key:1"))
	case 3:
		c.now += 300 // some expire
	case 4:
		c.now += 10_000
	case 5, 6, 7, 8, 9, 10:
		for range c.rand.IntN(200) {
			c.limits()
		}
	default:
		if c.rand.IntN(2) == 0 {
			c.limits()
		}
		c.step()
	}
}

// Whatever happens to collections while they are copied and their changes are
// drained, the copy and the records give the same table again.
//
//test:norace
func TestPartsGiveTheTableAgain(t *testing.T) {
	changes, late := map[byte]int{}, 0
	lengths := testlengths.Read(t, 9000)
	runs := 60
	if os.Getenv("LIMITDB_LONG") != "" {
		runs = 30_000
	}
	for seed := range uint64(runs) {
		c := &collections{t: t, lengths: lengths, rand: rand.New(rand.NewPCG(seed, 14)), e: New(Options{Shards: 8}), now: 1e18}
		if c.run(seed, changes); t.Failed() {
			return
		}
		late += c.late
	}
	if late < runs/4 {
		t.Errorf("there were only %d changes of states in boxes, where they are", late)
	}
	for _, kind := range []byte{17, 25, 66, 67, 100, 101} { // leases, LOG, two of strings and two of lists
		if changes[kind] < 2*runs {
			t.Errorf("there were only %d changes in part of kind %d", changes[kind], kind)
		}
	}
}

// run counts the changes of each kind that were recorded in part.
func (c *collections) run(seed uint64, changes map[byte]int) {
	c.e.StartJournal(7, new(journal.Gate), func() {})
	if c.rand.IntN(4) == 0 {
		c.e.journal.Load().notes = c.rand.IntN(1000)
	}
	for range 1000 {
		c.limits()
	}
	c.some()
	drain(c.e, &journal.Buffer{})
	var copied, log journal.Buffer
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		cursor = c.e.Copy(0, cursor, &copied)
		c.quiet = c.quiet || c.rand.IntN(12) == 0
		c.some()
		switch c.rand.IntN(3) {
		case 0:
			drain(c.e, &log)
		case 1: // with changes between the cut and the drain's end
			c.e.Cut()
			c.some()
			for more := true; more; {
				var part journal.Buffer
				more = c.e.Drain(&part, 500)
				log.Add(&part)
				c.some()
			}
		}
	}
	for range c.rand.IntN(30) {
		c.some()
		drain(c.e, &log)
	}
	drain(c.e, &log)
	for b := log.Bytes; len(b) > 0; {
		r, rest, err := journal.Parse(b)
		if err != nil {
			c.t.Fatal(err)
		}
		if b = rest; r.Op == journal.Change {
			changes[r.Kind]++
		}
	}
	for i := range c.e.shards {
		c.now = max(c.now, c.e.shards[i].last)
	}
	again := New(Options{Shards: []int{1, 4}[c.rand.IntN(2)]})
	if err := replay(again, c.now, copied.Bytes, log.Bytes); err != nil {
		c.t.Fatalf("seed %d: %v", seed, err)
	}
	again.check()
	want, got := contents(c.e, c.now), contents(again, c.now)
	if fmt.Sprint(want) != fmt.Sprint(got) {
		c.t.Fatalf("seed %d: %.2000v\nwant %.2000v", seed, got, want)
	}
}

// A value of any kind and length can become a longer or a shorter one with a head, also one
// that has no head itself, and the records give the same table again.
//
//test:norace
func TestChangesFromStatesOfAnyLength(t *testing.T) {
	const now = int64(1e18)
	key := []byte("key")
	kinds := []limit.Kind{limit.STRING, limit.STRING + 1, limit.LONGSTRING, limit.LONGSTRING + 1, limit.HASH, limit.HASH + 1}
	for _, from := range kinds {
		for n := journal.MinChanged - 30; n <= journal.MinChanged+2; n++ {
			for _, more := range []int{-n, -1, 0, 1, 50} {
				e := New(Options{Shards: 1})
				e.StartJournal(7, new(journal.Gate), func() {})
				before := make([]byte, n)
				if _, timed, _ := from.Value(); timed {
					binary.LittleEndian.PutUint64(before, uint64(now+1000))
				}
				if err := e.Update(now, [][]byte{key}, func(tx *Txn) error { return tx.Put(key, from, before) }); err != nil {
					t.Fatal(err)
				}
				to := from
				if of, _, _ := from.Value(); of == limit.STRING {
					to += limit.LONGSTRING - limit.STRING
				}
				body := before[min(n, max(journal.HeadSize(byte(from)), 8*int(1-from%2))):]
				after := append(slices.Clone(body[:max(0, len(body)+min(more, 0))]), make([]byte, max(more, 0))...)
				splices := journal.AppendSplice(nil, min(len(body), len(after)), max(0, len(body)-len(after)), after[min(len(body), len(after)):])
				if err := e.Update(now, [][]byte{key}, func(tx *Txn) error {
					return tx.Change(key, to, valueState(to, now+2000, after), splices)
				}); err != nil {
					t.Fatal(err)
				}
				var log journal.Buffer
				drain(e, &log)
				again := New(Options{})
				if err := replay(again, now, nil, log.Bytes); err != nil {
					t.Fatalf("%d bytes of kind %d, changed by %d: %v", n, from, more, err)
				}
				want, got := contents(e, now), contents(again, now)
				if len(want) != 1 || fmt.Sprint(want) != fmt.Sprint(got) {
					t.Fatalf("%d bytes of kind %d, changed by %d: %.300v\nwant %.300v", n, from, more, got, want)
				}
			}
		}
	}
}

// push adds n elements of 20 bytes on the right of a list, and has it expire at a time, 0 for never.
func push(t testing.TB, e *Engine, now int64, key string, n int, expires int64) {
	t.Helper()
	if err := e.Update(now, [][]byte{[]byte(key)}, func(tx *Txn) error {
		kind, state, err := tx.Get([]byte(key))
		if err != nil {
			return err
		}
		was := state[min(len(state), journal.HeadSize(byte(kind))):]
		body := append(slices.Clone(was), bytes.Repeat([]byte("12345678901234567890"), n)...)
		splices := journal.AppendSplice(nil, len(was), 0, body[len(was):])
		if expires == 0 {
			return tx.Change([]byte(key), limit.LIST+1, valueState(limit.LIST+1, 0, body), splices)
		}
		return tx.Change([]byte(key), limit.LIST, valueState(limit.LIST, expires, body), splices)
	}); err != nil {
		t.Fatal(err)
	}
}

// The records of changes are as long as the changes, not as the value.
//
//test:norace
func TestChangesOfALongListAreSmall(t *testing.T) {
	e := New(Options{})
	e.StartJournal(0, new(journal.Gate), func() {})
	const now = int64(1e18)
	push(t, e, now, "list", 40_000, 0)
	var log journal.Buffer
	drain(e, &log)
	log.Reset(0)
	for i := range 1000 {
		push(t, e, now, "list", 1, now+int64(1+i))
		if i%10 == 0 {
			drain(e, &log)
		}
	}
	if len(log.Bytes) > 1000*60 {
		t.Errorf("1000 changes of 20 bytes drained %d bytes", len(log.Bytes))
	}
}

// Many changes of a key in one cut cost no more than its state.
func TestManyChangesAreDrainedWhole(t *testing.T) {
	e := New(Options{})
	e.StartJournal(0, new(journal.Gate), func() {})
	const now = int64(1e18)
	push(t, e, now, "list", 50, 0)
	drain(e, &journal.Buffer{})
	for range 20 { // half of them are undone by deleting
		push(t, e, now, "list", 40, 0)
		if err := e.Update(now, [][]byte{[]byte("list")}, func(tx *Txn) error {
			_, state, err := tx.Get([]byte("list"))
			if err != nil {
				return err
			}
			return tx.Change([]byte("list"), limit.LIST+1, slices.Clone(state[:4+1000]), journal.AppendSplice(nil, 1000, 800, nil))
		}); err != nil {
			t.Fatal(err)
		}
	}
	var log journal.Buffer
	if drain(e, &log); len(log.Bytes) > 3*1900 {
		t.Errorf("%d bytes are drained for a state of 1004", len(log.Bytes))
	}
}

// A state that replicas may have dropped is recorded whole.
func TestRecordWhole(t *testing.T) {
	const now = int64(1e18)
	for kind, change := range map[string]func(e *Engine, from, until int64){
		"list": func(e *Engine, from, until int64) { push(t, e, from, "key", 50, until) },
		"LOG": func(e *Engine, from, until int64) {
			l := limit.Limit{Algorithm: limit.LOG, Max: 1000, Period: until - from}
			for i := range int64(300) {
				mustTake(t, e, from-300+i, []byte("key"), &l, 1)
			}
			mustTake(t, e, from, []byte("key"), &l, 1)
		},
		"leases": func(e *Engine, from, until int64) {
			n := 20
			if from > now {
				n = 1 // of them
			}
			for i := range n {
				var d limit.Decision
				l := limit.Lease{Limit: 1000, TTL: until - from, Weight: 1, ID: fmt.Append(nil, "holder ", i)}
				if err := e.Lease(from, []byte("key"), &l, &d); err != nil || d.Limited {
					t.Fatal(d, err)
				}
			}
		},
	} {
		for _, c := range []struct {
			until int64
			whole bool
		}{{math.MinInt64, false}, {now + 999, false}, {now + 1000, true}, {math.MaxInt64, true}} {
			e := New(Options{})
			e.StartJournal(0, new(journal.Gate), func() {})
			change(e, now, now+1000)
			drain(e, &journal.Buffer{})
			e.RecordWhole(c.until)
			e.RecordWhole(0) // does not go back
			change(e, now+1, now+2000)
			var log journal.Buffer
			drain(e, &log)
			r, _, err := journal.Parse(log.Bytes)
			if err != nil || (r.Op == journal.Set) != c.whole {
				t.Errorf("%s, until %d: op %d, %v", kind, c.until, r.Op, err)
			}
		}
	}
}

// Records that are missing are found, and keys that were removed later are not.
func TestMissed(t *testing.T) {
	const now = int64(1e18)
	e := New(Options{})
	e.StartJournal(0, new(journal.Gate), func() {})
	parts := make([][]journal.Record, 4)
	for i := range parts {
		push(t, e, now, "list", 50, now+100)
		var log journal.Buffer
		drain(e, &log)
		r, _, err := journal.Parse(log.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = []journal.Record{r}
	}
	gone := []journal.Record{{Op: journal.Delete, Kind: byte(limit.LIST), Key: []byte("list")}}
	for name, c := range map[string]struct {
		records [][]journal.Record
		missed  bool
	}{
		"all":                  {parts, false},
		"some twice":           {[][]journal.Record{parts[0], parts[1], parts[2], parts[1], parts[2], parts[3]}, false},
		"the first":            {parts[1:], true},
		"one in the middle":    {[][]journal.Record{parts[0], parts[2]}, true},
		"of a key that went":   {[][]journal.Record{parts[1], gone}, false},
		"before a whole state": {[][]journal.Record{parts[2], parts[0], parts[1]}, false},
	} {
		again := New(Options{})
		for _, r := range c.records {
			if err := again.Restore(r, 0, 1); err != nil {
				t.Fatal(err)
			}
		}
		if _, missed := again.Missed(now); missed != c.missed {
			t.Errorf("%s: %v", name, missed)
		}
		if _, missed := again.Missed(now + 100); missed {
			t.Errorf("%s: missed after it has expired", name)
		}
	}
}
