package rulebook

import (
	"crypto/rand"
	"encoding/base64"
	"slices"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/handler"
	"limitdb/server/request"
)

// A check under rules with in_flight takes a lease from each of them, in the same step as from the limits. All have one id, which the reply has, and
// which gives them back: RL.CHECK … RELEASE id. Whoever has no id cannot, so nobody gives back the lease of another. A check that holds, or counts once,
// has an id of its own, which is that of its leases: so a repetition has the same.

// idBytes is how many random bytes an id has: two are never the same.
const idBytes = 15

// leases are those that a check asks for.
type leases struct {
	some bool   // there are some
	id   []byte // of all of them; of a check with RELEASE, what it gives back
	buf  [idBytes * 4 / 3]byte
	all  []limit.Lease // one for each charge; those of limits are empty
	refs []*limit.Lease
}

// of makes the requests for leases of some charges, with an id, or one of their own if that is nil. It returns nil if none of them is for one.
func (l *leases) of(charges []rules.Charge, id []byte) []*limit.Lease {
	l.some = false
	for i := range charges {
		l.some = l.some || charges[i].InFlight != nil
	}
	if !l.some {
		return nil
	}
	if l.id = id; id == nil {
		var random [idBytes]byte
		rand.Read(random[:])
		l.id = base64.RawURLEncoding.AppendEncode(l.buf[:0], random[:])
	}
	l.all, l.refs = append(l.all[:0], make([]limit.Lease, len(charges))...), l.refs[:0]
	for i := range charges {
		var ref *limit.Lease
		if f := charges[i].InFlight; f != nil {
			l.all[i] = limit.Lease{Limit: f.Max, TTL: f.Lease, Weight: 1, ID: l.id}
			ref = &l.all[i]
		}
		l.refs = append(l.refs, ref)
	}
	return l.refs
}

// leaseID returns the id of the leases that a check holds after it was granted, "" if it holds none: a rule in shadow mode that would deny
// grants none.
func (k *check) leaseID() string {
	if k.how == takes && !k.denied {
		for i := range k.Charges {
			if k.Charges[i].InFlight != nil && !k.ds[i].Limited {
				return string(k.leases.id)
			}
		}
	}
	return ""
}

// ownID returns the id of a check that holds or counts once, which is valid as long as the check, or nil.
func (k *check) ownID() []byte {
	if k.held.TTL > 0 {
		return k.held.ID
	}
	return k.counted.id()
}

// setRelease makes the check one that gives back leases. It returns the text of the error, or "".
func (k *check) setRelease(words [][]byte) (n int, text string) {
	if len(words) < 2 {
		return 0, "ERR syntax error: a value is missing after " + resp.Quote(words[0])
	}
	k.how, k.leases.id = releases, words[1]
	return 2, request.CheckLeaseID(words[1])
}

// chargeRelease keeps the keys with leases alone.
func (k *check) chargeRelease() {
	a := &k.all
	a.Keys, a.Limits, a.Costs, a.Soft, a.Leases, a.Blocks, k.leases.some = a.Keys[:0], a.Limits[:0], a.Costs[:0], nil, nil, nil, false
	for i := range k.Charges {
		if c := &k.Charges[i]; c.InFlight != nil {
			a.Keys, a.Limits, a.Costs = append(a.Keys, c.Key), append(a.Limits, *c.Limit), append(a.Costs, 0)
		}
	}
	k.ds = slices.Grow(k.ds[:0], len(a.Keys))[:len(a.Keys)]
	a.Decisions = k.ds
}

// release gives the leases back, and keeps how many there were. Those that are over, or have been given back, are no error.
func (k *check) release(t *txn) (err error) {
	_, k.released, err = handler.Each{How: handler.Releases, ID: k.leases.id}.Do(t.Txn, &k.all)
	return err
}
