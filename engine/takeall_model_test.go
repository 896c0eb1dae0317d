package engine

import (
	"bytes"
	"fmt"

	"limitdb/limit"
)

// takeAll runs a step as a TakeAll of two to five keys. Some of their limits may
// be soft.
func (p *pair) takeAll(now int64, st step) error {
	n := 2 + int(st.cost)%4
	keys, shards := make([][]byte, n), make([]*shard, n)
	limits, costs := make([]limit.Limit, n), make([]int64, n)
	for i := range n {
		keys[i] = stepKey(st.key + 13*byte(i))
		limits[i] = stepLimits[(int(st.limit)+i)%len(stepLimits)]
		costs[i] = int64(st.cost) >> i % 4
		_, shards[i] = p.e.place(keys[i])
	}
	if st.limit == 255 {
		keys[n-1], shards[n-1] = keys[0], shards[0]
	}
	got := make([]limit.Decision, n)
	all := Together{Keys: keys, Limits: limits, Costs: costs, Decisions: got, Peek: st.limit%16 == 9, CountDenied: st.cost%3 == 0}
	if st.key%3 == 0 {
		all.Soft = make([]bool, n)
		for i := range n {
			all.Soft[i] = st.key>>i&1 == 1
		}
	}
	gotAt, gotErr := p.e.Together(now, &all)
	want, wantAt, wantErr := p.m.takeAll(now, shards, &all)
	if gotAt != wantAt || gotErr != wantErr || wantErr == nil && !equal(got, want) {
		return fmt.Errorf("TakeAll(%q, %v) at %d = %+v, %d, %v; want %+v, %d, %v", keys, costs, now, got, gotAt, gotErr, want, wantAt, wantErr)
	}
	return nil
}

func equal(a, b []limit.Decision) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// takeAll is TakeAll in its plainest form: ask all keys, then take from all or
// none.
func (m *model) takeAll(now int64, shards []*shard, all *Together) (ds []limit.Decision, at int, err error) {
	keys, limits, costs := all.Keys, all.Limits, all.Costs
	for _, s := range shards {
		now = m.clamp(s, now)
	}
	for _, s := range shards {
		m.clamp(s, now)
	}
	for i := range keys {
		for j := range i {
			if bytes.Equal(keys[i], keys[j]) {
				return nil, i, ErrDuplicate
			}
		}
	}
	ds = make([]limit.Decision, len(keys))
	longest := int64(-1)
	at = -1
	for i, key := range keys {
		l := limits[i]
		l.CountDenied = false
		x, ok := m.live(now, key)
		if ok && x.mismatch(now, &l) {
			return nil, i, ErrWrongType
		}
		if err := limit.PeekBlock(&l, x.kind, x.state, now, costs[i], &ds[i]); err != nil {
			return nil, i, err
		}
		wait := uint64(ds[i].Wait) // Never is the largest
		if ds[i].Limited && !all.soft(i) && (at < 0 || wait > uint64(longest)) {
			at, longest = i, int64(wait)
		}
	}
	for i, key := range keys {
		x, _ := m.live(now, key)
		switch {
		case all.Peek && (at < 0 || ds[i].Limited):
			if all.CountDenied && ds[i].Limited {
				if err := limit.PeekBlock(&limits[i], x.kind, x.state, now, costs[i], &ds[i]); err != nil {
					return nil, i, err
				}
			}
		case ds[i].Limited:
			l := limits[i] // a denial moves to a faster pace, and may count
			l.CountDenied = l.CountDenied && all.CountDenied
			next, as, err := limit.TakeBlock(&l, x.kind, x.state, now, costs[i], nil, &ds[i])
			if err != nil {
				return nil, i, err
			}
			if next != nil {
				m.become(now, key, &limits[i], modelEntry{as, bytes.Clone(next)})
			}
		case at >= 0:
			if err := limit.PeekBlock(&limits[i], x.kind, x.state, now, 0, &ds[i]); err != nil {
				return nil, i, err
			}
		default:
			next, as, err := limit.TakeBlock(&limits[i], x.kind, x.state, now, costs[i], nil, &ds[i])
			if err != nil {
				return nil, i, err
			}
			if next != nil {
				m.become(now, key, &limits[i], modelEntry{as, bytes.Clone(next)})
			}
		}
	}
	if at >= 0 {
		at = (&Together{Decisions: ds, Soft: all.Soft}).Worst()
	}
	switch {
	case all.Peek:
		m.want.Peeked++
	case at >= 0:
		m.want.Limited++
	default:
		m.want.Allowed++
	}
	return ds, at, nil
}
