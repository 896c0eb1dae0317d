package rulebook

import "limitdb/engine"

// A check with WAIT is parked like other commands that wait. When the rules change, it is prepared and asked again under the new ones, and keeps
// its place.

// Waits implements handler.Prepared.
func (k *check) Waits() int64 {
	if len(k.Charges) == 0 {
		return -1
	}
	return k.wait
}

// Ask implements handler.Asks.
func (k *check) Ask() (key []byte, w *engine.Waiter) { return nil, &engine.Waiter{All: &k.all} }

// chargeSize is roughly the memory for one limit that a check waits for, beside its key.
const chargeSize = 256

// Size implements handler.Asks.
func (k *check) Size() (n int64) {
	for i := range k.Charges {
		n += int64(len(k.Charges[i].Key)) + chargeSize
	}
	return n
}

// Outdated implements handler.Outdates: the rules are no longer in force.
func (k *check) Outdated() bool { return k.force != k.book.force.Load() }

// Told implements handler.Asks.
func (k *check) Told(c *call, _ []byte, w *engine.Waiter) {
	_, _, err := w.Result()
	k.tell(c, k.all.At, c.Now, err)
}
