package limit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// apply returns what the edits since a state make of it, and how many bytes they have.
func (s *Since) apply(was, is []byte) (got []byte, size int) {
	start := leaseStart
	if s.kind == longLog {
		start = logStart
	}
	body := bytes.Clone(was[start:])
	s.Edits(is, func(at, del int, ins []byte) {
		size += 3 + len(ins)
		body = slices.Concat(body[:at], ins, body[at+del:])
	})
	return append(bytes.Clone(is[:start]), body...), size
}

// The edits since any earlier state make the later one of it, whatever has happened in between, also in place.
//
//test:norace
func TestSinceLog(t *testing.T) {
	const walks = 300
	noted, edits, wholes := 0, 0, 0
	for seed := range uint64(walks) {
		w := walk{rand.New(rand.NewPCG(seed, 77)), t}
		l := plain(LOG, []int64{60, 300, 900}[w.IntN(3)], int64(60e9), 0)
		var state, was []byte
		var since Since
		now := int64(1.7e18)
		for i := range 600 {
			now += w.Int64N(1+2*l.Period/l.Max) * int64(w.IntN(3)/2)
			if w.IntN(40) == 0 {
				now += w.Int64N(l.Period)
			}
			if w.IntN(20) == 0 {
				since.Note(LOG.Kind(), state)
				was = bytes.Clone(state)
			}
			m := l
			m.CountDenied = w.IntN(9) == 0
			if w.IntN(60) == 0 {
				m.Period *= 1 + w.Int64N(3)
			}
			call, cost := take, 1+w.Int64N(3)
			if w.IntN(8) == 0 {
				call, cost = refund, 1+w.Int64N(max(2, l.Max/int64(1+w.IntN(40))))
			}
			next, _, err := call(&m, state, now, cost, state)
			if err != nil {
				t.Fatal(err)
			}
			if next == nil {
				continue
			}
			if state = next; LOG.Kind().Recorded(state) != longLog {
				since = Since{}
			}
			if since.Size() == 0 {
				continue
			}
			since.Changed(state)
			noted++
			got, size := since.apply(was, state)
			if !bytes.Equal(got, state) {
				t.Fatalf("seed %d, step %d: the edits make\n%x\nwant\n%x\nof\n%x", seed, i, got, state, was)
			}
			edits += size
			wholes += len(state)
		}
	}
	if noted < 50*walks || edits*3 > wholes {
		t.Errorf("%d edits of %d bytes, for states of %d", noted, edits, wholes)
	}
}

// As TestSinceLog, for leases.
//
//test:norace
func TestSinceLeases(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	noted, edits := 0, 0
	for range 100 {
		var state, was []byte
		var since Since
		now, holders := int64(1.7e18), 1+r.IntN(80)
		for i := range 300 {
			now += r.Int64N(3) * 1e6
			if r.IntN(20) == 0 {
				since.Note(LEASE, state)
				was = bytes.Clone(state)
			}
			id := fmt.Appendf(nil, "holder-%d", r.IntN(holders))
			var next []byte
			switch ttl := r.Int64N(500)*1e6 + 1; r.IntN(4) {
			case 0:
				next, _, _ = ReleaseLease(id, state, now, nil)
			case 1:
				next, _, _ = RenewLease(id, ttl, state, now, nil)
			default:
				var d Decision
				l := Lease{Limit: 1000, TTL: ttl, Weight: 1 + r.Int64N(3), ID: id}
				next, _ = TakeLease(&l, state, now, nil, &d)
			}
			if next == nil {
				continue
			}
			if state = next; len(state) < longLease {
				if len(state) >= longLease-revisionSize {
					t.Fatalf("step %d: %d bytes", i, len(state))
				}
				since = Since{}
			}
			if since.Size() == 0 {
				continue
			}
			since.Changed(state)
			got, size := since.apply(was, state)
			if !bytes.Equal(got, state) {
				t.Fatalf("step %d: the edits make\n%x\nwant\n%x\nof\n%x", i, got, state, was)
			}
			noted++
			edits += size
		}
	}
	if noted < 1000 {
		t.Errorf("%d edits", noted)
	}
	t.Log(noted, edits/noted)
}

// The kind of a record says whether its leases have a revision, and which kind has the state.
func TestRestoredLeases(t *testing.T) {
	for n := range 40 {
		var d Decision
		var state []byte
		for i := range n {
			l := Lease{Limit: 1000, TTL: 1e9 + int64(i), Weight: 1, ID: fmt.Appendf(nil, "%0*d", 1+n%13, i)}
			state, _ = TakeLease(&l, state, 1.7e18, nil, &d)
		}
		recorded := LEASE.Recorded(state)
		if kind := recorded.Restored(); kind != LEASE || recorded == LEASE != (len(state) < longLease) {
			t.Errorf("%d leases have records of kind %d, of states of kind %d", n, recorded, kind)
		}
	}
}
