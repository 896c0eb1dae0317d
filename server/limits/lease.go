package limits

import (
	"bytes"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/denials"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// leaseRows are the commands of leases, which limit how much may be in flight at a time.
func leaseRows() []row {
	id := spec.Argument{Name: "token", Kind: "string", Token: "ID"}
	ttl := spec.Text("ttl")
	of := func(name, words string, arity int, f spec.Flags, summary string, do func(*call, *txn), args ...spec.Argument) row {
		return onKey(name, "jobs"+words, arity, f|spec.Decides, "O(n) for n leases of the key", summary, do, args...)
	}
	lease := of("RL.LEASE", " 10 30s ID worker-1", -6, spec.Write|spec.Blocking, "Takes a lease: a share of what may be in flight, for a time.", lease,
		spec.Integer("limit"), ttl, id,
		spec.Argument{Name: "weight", Kind: "integer", Token: "WEIGHT", Optional: true}, request.WaitWord())
	lease.Prepare = prepareLease
	return []row{
		lease,
		of("RL.RENEW", " ID worker-1 30s", 5, spec.Write, "Sets when a lease ends; returns its weight.", renew, id, ttl),
		of("RL.RELEASE", " ID worker-1", 4, spec.Write, "Gives a lease back; returns its weight.", release, id),
		of("RL.HOLDERS", "", 2, spec.Readonly, "Lists the leases of a key, the soonest to end first.", holders),
	}
}

// idWord parses "ID token". If it fails, it replies with an error.
func idWord(c *call, words [][]byte) (id []byte, ok bool) {
	text := request.CheckLeaseID(words[1])
	if !resp.EqualFold(words[0], "ID") {
		text = "ERR syntax error: ID token is expected, not " + resp.Quote(words[0])
	}
	if text != "" {
		c.Fail(text)
		return nil, false
	}
	return words[1], true
}

// What a step on a key of leases takes the time of one decision for: so many holders, or so many
// bytes of its state.
const (
	leaseWork  = 16
	leaseBytes = 512
)

// leased is a parsed RL.LEASE.
type leased struct {
	request.LeaseArgs
	key    [1][]byte
	waiter engine.Waiter
	d      limit.Decision // a denial
}

func prepareLease(c *call) (handler.Prepared, string) {
	l := &leased{key: [1][]byte{c.Args[1]}}
	if text := request.ParseLease(c.Args[2:], &l.LeaseArgs); text != "" {
		return nil, text
	}
	return l, ""
}

// Keys implements handler.Prepared.
func (l *leased) Keys() [][]byte { return l.key[:] }

// Keep implements handler.Prepared. The engine copies the key of a request that waits, and reads the id again when the wait is over.
func (l *leased) Keep() handler.Prepared {
	l.ID = bytes.Clone(l.ID)
	return l
}

// Free implements handler.Prepared.
func (l *leased) Free() {}

// Waits implements handler.Prepared. A lease by itself always asks, since those that wait go before it.
func (l *leased) Waits() int64 { return max(0, l.Wait) }

// Ask implements handler.Asks.
func (l *leased) Ask() (key []byte, w *engine.Waiter) {
	l.waiter.Request = engine.Request{Lease: &l.Lease}
	return l.key[0], &l.waiter
}

// Size implements handler.Asks.
func (l *leased) Size() int64 { return 0 }

// Told implements handler.Asks.
func (l *leased) Told(c *call, key []byte, w *engine.Waiter) {
	d, _, err := w.Result()
	l.tell(c, c.Keyspace(), key, &d, err)
}

func lease(c *call, t *txn) {
	l := c.Prepared.(*leased)
	var d limit.Decision
	err := t.Note(t.Lease(l.key[0], &l.Lease, &d))
	if t.Err == nil {
		l.tell(c, t, l.key[0], &d, err)
	}
}

// tell replies with the decision on the key, or with the error.
func (l *leased) tell(c *call, keys handler.Keyspace, key []byte, d *limit.Decision, err error) {
	c.Worked((d.Limit - d.Remaining) / leaseWork) // each holder has a weight of at least 1
	if failed(c, keys, err, key, limit.LEASE) {
		return
	}
	if Millis(c, d); d.Limited {
		l.key[0], l.d = key, *d
		c.Then(noteSize, l)
	}
}

// Happen implements handler.Effect: a denial is kept.
func (l *leased) Happen(c *call) {
	c.Deny(l.key[0], &l.d, &denials.Denial{Lease: true, Limit: limit.Limit{Max: l.Limit}, Cost: l.Weight})
}

func renew(c *call, t *txn) {
	id, ok := idWord(c, c.Args[2:])
	if !ok {
		return
	}
	ttl, text := request.ParseTTL(c.Args[4])
	if text != "" {
		c.Fail(text)
		return
	}
	change(c, t, func(now int64, state, dst []byte) ([]byte, int64, error) {
		return limit.RenewLease(id, ttl, state, now, dst)
	})
}

func release(c *call, t *txn) {
	if id, ok := idWord(c, c.Args[2:]); ok {
		change(c, t, func(now int64, state, dst []byte) ([]byte, int64, error) {
			return limit.ReleaseLease(id, state, now, dst)
		})
	}
}

// change changes a lease of the key, and replies with its weight.
func change(c *call, t *txn, by func(now int64, state, dst []byte) (next []byte, weight int64, err error)) {
	weight := int64(0)
	ok := step(c, t, func(now int64, state, dst []byte) (next []byte, err error) {
		next, weight, err = by(now, state, dst)
		return next, err
	})
	if ok {
		c.Int(weight)
	}
}

func holders(c *call, t *txn) {
	var found []byte
	n := 0
	ok := step(c, t, func(now int64, state, _ []byte) ([]byte, error) {
		for h := range limit.Holders(state, now) {
			found = resp.AppendArray(found, 3)
			found = resp.AppendBulk(found, h.ID)
			found = resp.AppendInt(found, h.Weight)
			found = resp.AppendInt(found, limit.Milliseconds(h.End-c.Now))
			n++
		}
		return nil, nil
	})
	if ok {
		c.Array(n)
		c.Out = append(c.Out, found...)
	}
}

// step runs fn on the leases of the key. If that fails, it replies with the error and returns false.
func step(c *call, t *txn, fn engine.Step) (ok bool) {
	err := t.Step(c.Args[1], limit.LEASE, func(now int64, state, dst []byte) ([]byte, error) {
		c.Worked(int64(len(state)) / leaseBytes)
		return fn(now, state, dst)
	})
	err = t.Note(err)
	return t.Err == nil && !failed(c, t, err, c.Args[1], limit.LEASE)
}
