// Package values has the commands on strings and collections, with the replies and errors of
// Redis 7. Each is one atomic step on its keys: its handler reads what they hold, decides, and
// puts what they hold from then on. It may run twice, so it has no other effect.
package values

import (
	"encoding/binary"
	"math"

	"limitdb/internal/journal"
	"limitdb/limit"
	"limitdb/server/handler"
	"limitdb/server/spec"
	"limitdb/value"
)

// The error texts of commands on values, as Redis words them.
const (
	errNotFloat           = "ERR value is not a valid float"
	errNoSuchKey          = "ERR no such key"
	errNaN                = "ERR increment would produce NaN or Infinity"
	errSumOverflow        = "ERR increment or decrement would overflow"
	errStringTooLong      = "ERR string exceeds maximum allowed size (64 kB)"
	errCollectionTooLarge = "ERR a sorted set, hash, list or set may have at most 1 MB, a list of numbers 1024000 elements"
	errBounds             = "ERR LBOUND is above UBOUND"
)

// A Call is one run of a command on values.
type Call struct {
	handler.Call
	body, state []byte // room for what the command writes
}

// Txn is one atomic step on keys.
type Txn = handler.Txn

// spareMost is the largest buffer, in bytes, that an idle client keeps for its next command on
// values.
const spareMost = 512

// Spare lets go of large buffers.
func (c *Call) Spare() {
	if cap(c.body) > spareMost {
		c.body = nil
	}
	if cap(c.state) > spareMost {
		c.state = nil
	}
}

// Item is what a key holds, for commands on values.
type Item struct {
	Kind    limit.Kind // of what is no value; 0: a value, or nothing
	Type    value.Type // value.None: no value
	Expires int64      // ms of Unix time; 0: never
	Body    []byte
	// Late is set if the splices of a change have not been applied to Body, which is the one that the key holds.
	Late bool
}

// Exists reports whether the key exists.
func (it *Item) Exists() bool { return it.Kind != 0 || it.Type != value.None }

// millisecond is in nanoseconds.
const millisecond = 1_000_000

// LastExpiry is the latest time, in ms of Unix time, at which a value can expire: in the year
// 2262. A later one is cut to it.
const LastExpiry = math.MaxInt64 / millisecond

// NowMillis returns the call's time in ms of Unix time.
func (c *Call) NowMillis() int64 { return c.Now / millisecond }

// expirySize is the size of the expiry before a value's body.
const expirySize = 8

// typeOf returns the type of a kind's values, and whether they expire; value.None for other kinds.
func typeOf(k limit.Kind) (typ value.Type, timed bool) {
	if k&^1 == limit.STRING { // nearly always
		return value.String, k == limit.STRING
	}
	of, timed, ok := k.Value()
	switch {
	case !ok:
		return value.None, false
	case of == limit.LONGSTRING:
		return value.String, timed
	case of == limit.NUMBERS:
		return value.List, timed
	}
	return value.SortedSet + value.Type(of-limit.SORTEDSET)/2, timed
}

// kindOf returns the kind of a value. A string that is long enough to change in parts has a kind
// of its own, so that counters need no revision.
func kindOf(it *Item) limit.Kind {
	k := limit.STRING
	switch {
	case it.Type == value.String && len(it.Body) < journal.MinChanged: // nearly always
	case it.Type == value.String:
		k = limit.LONGSTRING
	case it.isNumbers():
		k = limit.NUMBERS
	default:
		k = limit.SORTEDSET + 2*limit.Kind(it.Type-value.SortedSet)
	}
	if it.Expires != 0 {
		return k
	}
	return k.Lasting()
}

// isNumbers reports whether a value is a list of numbers, in the form that these have.
func (it *Item) isNumbers() bool { return it.Type == value.List && value.Packed(it.Body) }

// workBytes is how many bytes of a value a command goes through in the time of a decision.
const workBytes = 256

// Item returns what key holds.
func (c *Call) Item(t *Txn, key []byte) (it Item) {
	kind, state := t.Get(key)
	if typ, timed := typeOf(kind); typ != value.None {
		it.Type, it.Body = typ, state[bodyAt(kind, timed):]
		if kind&^1 != limit.NUMBERS { // of which a command reads only what it asks for
			c.Worked(int64(len(it.Body) / workBytes))
		}
		if timed {
			it.Expires = int64(binary.LittleEndian.Uint64(state)) / millisecond
		}
		return it
	}
	it.Kind = kind
	if kind != 0 {
		it.Expires, it.Body = limit.Milliseconds(limit.Expires(kind, state)), state
	}
	return it
}

// Put puts a value at key. If the value has no body, Put removes the key.
func (c *Call) Put(t *Txn, key []byte, it *Item) {
	if it.Body == nil {
		t.Remove(key)
		return
	}
	kind, state := c.stateOf(it)
	c.Worked(int64(len(state) / workBytes))
	t.Put(key, kind, state)
}

// bodyAt returns where the body begins in the states of a kind.
func bodyAt(kind limit.Kind, timed bool) int {
	n := journal.HeadSize(byte(kind))
	if n == 0 && timed {
		n = expirySize
	}
	return n
}

// stateOf returns the state of a value, valid until the next call, and its kind.
func (c *Call) stateOf(it *Item) (kind limit.Kind, state []byte) {
	kind = kindOf(it)
	if kind == limit.STRING.Lasting() {
		return kind, it.Body
	}
	c.state = append(c.stateHead(kind, it), it.Body...)
	return kind, c.state
}

// stateHead returns what comes before the body in the state of a value, valid until the next call.
func (c *Call) stateHead(kind limit.Kind, it *Item) []byte {
	b := c.state[:0]
	if it.Expires != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(min(it.Expires, LastExpiry)*millisecond))
	}
	if journal.InParts(byte(kind)) {
		b = append(b, 0, 0, 0, 0) // the revision, which the engine counts
	}
	return b
}

// Change is Put for what the key holds already, but for its expiry and the splices of its body.
// If that is long, the log gets only these.
func (c *Call) Change(t *Txn, key []byte, it *Item, splices []value.Splice) {
	if it.Body == nil {
		t.Remove(key)
		return
	}
	if it.Late || it.isNumbers() && len(splices) == 0 {
		c.splice(t, key, it, splices)
		return
	}
	kind, state := c.stateOf(it)
	if !journal.InParts(byte(kind)) {
		t.Put(key, kind, state)
		return
	}
	n := len(state)
	c.appendSplices(splices)
	t.Change(key, kind, c.state[:n], c.state[n:])
}

// splice is Change for splices that have not been applied to the body.
func (c *Call) splice(t *Txn, key []byte, it *Item, splices []value.Splice) {
	kind := kindOf(it)
	c.state = c.stateHead(kind, it)
	n := len(c.state)
	c.appendSplices(splices)
	moved := 0
	for i := range splices {
		if splices[i].Del != len(splices[i].Ins) { // what is behind it moves
			moved = max(moved, len(it.Body)-splices[i].At)
		}
	}
	if len(splices) == 0 { // it may get another kind, and then all of it is copied
		moved = len(it.Body)
	}
	c.Worked(int64(moved / workBytes))
	t.Splice(key, kind, c.state[:n], c.state[n:])
}

func (c *Call) appendSplices(splices []value.Splice) {
	for i := range splices {
		c.state = journal.AppendSplice(c.state, splices[i].At, splices[i].Del, splices[i].Ins)
	}
}

// of returns what key holds if that is a value of the type, or nothing. Otherwise it replies
// with the error, and ok is false.
func (c *Call) of(t *Txn, key []byte, typ value.Type) (it Item, ok bool) {
	it = c.Item(t, key)
	if it.Type == typ || !it.Exists() {
		return it, true
	}
	c.failWrongType(&it, typ.String())
	return it, false
}

// replaceable reports whether what key holds may be replaced by a value of any type. It replies
// with the error for a limit or a lease: its quota must not be forgotten by accident.
func (c *Call) replaceable(it *Item) bool {
	if it.Kind == 0 {
		return true
	}
	c.failWrongType(it, "value")
	return false
}

// failWrongType replies that a key holds something else than it should.
func (c *Call) failWrongType(it *Item, wants string) {
	text := spec.ErrWrongType
	if it.Kind != 0 {
		text += ": it holds " + it.Kind.String() + ", not a " + wants + "; RL.RESET forgets it"
	}
	c.Fail(text)
}
