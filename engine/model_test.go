package engine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"limitdb/limit"
)

// model is the engine in plain slow Go: a map that is searched in full.
type model struct {
	keys map[string]modelEntry
	last map[*shard]int64 // each shard has a clock of its own
	want Stats            // but for Bytes
}

type modelEntry struct {
	kind  limit.Kind
	state []byte
}

func (x modelEntry) expires() int64 { return limit.Expires(x.kind, x.state) }

// pair runs every step on an engine and on the model and compares the answers.
type pair struct {
	e *Engine
	m model
}

func newPair(o Options) *pair {
	return &pair{e: New(o), m: model{keys: map[string]modelEntry{}, last: map[*shard]int64{}}}
}

// step is one call, in the form in which the tests draw and fuzz it.
type step struct {
	op    byte
	key   byte
	limit byte
	cost  byte
	dt    int64 // added to the clock; negative: the clock goes back
}

const stepOps = 12

// stepLimits are the limits that steps choose from, of every algorithm with every
// option. A key meets all of them. Spellings that an algorithm does not have are
// left out.
var stepLimits = func() (all []limit.Limit) {
	for _, a := range limit.Algorithms() {
		some := len(all)
		for _, spelling := range []string{
			"5/us", "1/ms BURST 3", "100/us BURST 200", "0/us", "300/ms", "5/us BURST 900 INTERVAL", "5/us COLD 2 WARM 7us",
			"5/us FIRST", "5/us SEGMENTS 3", "90/us SEGMENTS 64", "0/us SEGMENTS 2", "7 CALENDAR second", "9/us COUNTDENIED", "9/us SEGMENTS 5 COUNTDENIED",
			"3/us BLOCK 7us", "4/us BLOCK 2us UPTO 9us", "3/us SEGMENTS 4 BLOCK 1us UPTO 16us", "3/us COUNTDENIED BLOCK 1us UPTO 2us", "0/us SEGMENTS 2 BLOCK 3us", "0/us BLOCK 3us UPTO 5us",
		} {
			if l, err := limit.Parse(a.String() + " " + spelling); err == nil {
				all = append(all, l)
			}
		}
		if len(all) == some {
			panic("no limit for " + a.String())
		}
	}
	return all
}()

// stepKey makes keys of all kinds of lengths, the empty one included.
func stepKey(i byte) []byte {
	if i == 0 {
		return nil
	}
	return bytes.Repeat([]byte{'k', i}, int(i)*int(i)/64+1)
}

// run does one step at now on both sides and returns how they differ.
func (p *pair) run(now int64, st step) error {
	defer p.e.check()
	key := stepKey(st.key)
	l := &stepLimits[int(st.limit)%len(stepLimits)]
	cost := int64(st.cost % 8)
	_, s := p.e.place(key)
	switch st.op % stepOps {
	case 0, 1, 2, 3, 4, 9, 10:
		return p.decide(now, st.op%stepOps, key, l, cost)
	case 5:
		clock := p.m.clamp(s, now)
		_, want := p.m.live(clock, key)
		delete(p.m.keys, string(key))
		if got := p.e.Reset(now, key); got != want {
			return fmt.Errorf("Reset(%q) = %v, want %v", key, got, want)
		}
	case 6:
		clock := p.m.clamp(s, now)
		x, want := p.m.live(clock, key)
		info, got := p.e.Info(now, key)
		if got != want || got && (info.Kind != x.kind || info.Expires != x.expires() || info.Level != limit.Level(x.kind, x.state, clock) || info.Bytes < int64(len(key)+len(x.state))) {
			return fmt.Errorf("Info(%q) = %+v, %v; want %+v, %v", key, info, got, x, want)
		}
	case 7:
		return p.all(now, int(st.cost)+1)
	case 8:
		if st.key%8 == 0 {
			p.e.Flush()
			clear(p.m.keys)
			break
		}
		// A sweep may drop any expired keys, and no others. The next steps see
		// the rest. Only the table can count what it drops.
		before := p.e.Stats()
		dropped := p.e.Sweep(now, int(st.cost)+1)
		if after := p.e.Stats(); before.Keys-after.Keys != int64(dropped) || after.Expired-before.Expired != uint64(dropped) {
			return fmt.Errorf("Sweep dropped %d, but %+v became %+v", dropped, before, after)
		}
		for i := range p.e.shards {
			p.m.last[&p.e.shards[i]] = p.e.shards[i].last
		}
	case 11:
		return p.takeAll(now, st)
	}
	return nil
}

func (m *model) clamp(s *shard, now int64) int64 {
	m.last[s] = max(m.last[s], now)
	return m.last[s]
}

func (m *model) live(now int64, key []byte) (modelEntry, bool) {
	x, ok := m.keys[string(key)]
	if ok && x.expires() <= now {
		delete(m.keys, string(key))
		return modelEntry{}, false
	}
	return x, ok
}

// blocked reports whether takes under l are denied by a block.
func (x modelEntry) blocked(now int64, l *limit.Limit) bool {
	var b limit.Block
	if x.kind != limit.BLOCK {
		return false
	}
	if _, _, err := b.Open(x.state, now); err != nil {
		panic(err)
	}
	return b.Left(l, now) > 0
}

// become stores what a request under l has made of a key, and counts the block that it has begun, if any.
func (m *model) become(now int64, key []byte, l *limit.Limit, next modelEntry) {
	if !m.keys[string(key)].blocked(now, l) && next.blocked(now, l) {
		m.want.Blocks++
	}
	m.keys[string(key)] = next
}

// decide runs a Take (3 of 7), Peek, Refund, Reserve or TakePartial.
func (p *pair) decide(now int64, op byte, key []byte, l *limit.Limit, cost int64) error {
	_, s := p.e.place(key)
	clock := p.m.clamp(s, now)
	x, ok := p.m.live(clock, key)
	var (
		next              []byte
		got, want         limit.Decision
		gotErr, wantErr   error
		mismatch, changes = ok && x.mismatch(clock, l), op != 3
		as                = l.Algorithm.Kind()
	)
	switch op {
	case 3:
		got, gotErr = peek(p.e, now, key, l, cost)
		wantErr = limit.PeekBlock(l, x.kind, x.state, clock, cost, &want)
	case 4:
		got, gotErr = refund(p.e, now, key, l, cost)
		next, as, wantErr = x.within(clock, l, func(_ *limit.Block, state []byte) ([]byte, error) {
			return limit.Refund(l, state, clock, cost, nil, &want)
		})
	case 9:
		gotErr = p.e.Reserve(now, key, l, cost, 1_000, &got)
		next, as, wantErr = x.reserve(clock, l, cost, 1_000, &want)
	case 10:
		var granted, wantGranted int64
		granted, gotErr = takePartial(p.e, now, key, l, cost, &got)
		next, as, wantGranted, wantErr = x.takePart(clock, l, cost, &want)
		if !mismatch && granted != wantGranted {
			return fmt.Errorf("TakePartial(%q) of %d with %+v grants %d, want %d", key, cost, *l, granted, wantGranted)
		}
	default:
		got, gotErr = take(p.e, now, key, l, cost)
		next, as, wantErr = limit.TakeBlock(l, x.kind, x.state, clock, cost, nil, &want)
	}
	if mismatch {
		next, want, wantErr = nil, limit.Decision{}, ErrWrongType
	}
	if got != want || gotErr != wantErr {
		return fmt.Errorf("op %d on %q at %d with %+v, cost %d = %+v, %v; want %+v, %v", op, key, now, *l, cost, got, gotErr, want, wantErr)
	}
	if wantErr == nil && changes && next != nil {
		p.m.become(clock, key, l, modelEntry{as, bytes.Clone(next)})
		p.m.live(clock, key)
	}
	if wantErr == nil {
		count(&p.m.want, op, want)
	}
	return nil
}

func count(s *Stats, op byte, d limit.Decision) {
	switch {
	case op == 3:
		s.Peeked++
	case op == 4:
		s.Refunded++
	case d.Limited:
		s.Limited++
	default:
		s.Allowed++
	}
}

// all compares everything that can be seen of the table at now.
func (p *pair) all(now int64, count int) error {
	got := map[string]Info{}
	for cursor := uint64(0); ; {
		cursor = p.e.Range(now, cursor, count, func(key []byte, info Info) {
			got[string(key)] = info
		})
		if cursor == 0 {
			break
		}
	}
	for key := range maps.Clone(p.m.keys) {
		_, s := p.e.place([]byte(key))
		p.m.live(p.m.clamp(s, now), []byte(key))
	}
	for i := range p.e.shards {
		p.m.clamp(&p.e.shards[i], now)
	}
	want := slices.Sorted(maps.Keys(p.m.keys))
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
		return fmt.Errorf("Range at %d found %q, want %q", now, keys, want)
	}
	for key, x := range p.m.keys {
		if info := got[key]; info.Expires != x.expires() || info.Kind != x.kind {
			return fmt.Errorf("Range says %+v of %q, want %+v", info, key, x)
		}
	}
	if key, ok := randomOf(p.e, now, []byte("x")); ok != (len(want) > 0) || key[0] != 'x' {
		return fmt.Errorf("Random = %q, %v with %d keys", key, ok, len(want))
	} else if ok && !slices.Contains(want, string(key[1:])) {
		return fmt.Errorf("Random = %q, want one of %q", key, want)
	}
	st := p.e.Stats()
	if st.Keys < int64(len(want)) {
		return fmt.Errorf("Stats.Keys = %d with %d live", st.Keys, len(want))
	}
	st.Keys, st.Bytes, st.Expired = 0, 0, 0
	if st != p.m.want {
		return fmt.Errorf("Stats = %+v, want %+v", st, p.m.want)
	}
	return nil
}
