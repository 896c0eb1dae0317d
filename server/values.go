package server

import (
	"encoding/binary"
	"errors"
	"math"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/spec"
	"limitdb/value"
)

// Strings and collections. A command on them is one atomic step of the engine: its handler reads
// what its keys hold, decides, and puts what they hold from then on. It may run twice, so it has
// no other effect.

// The error texts of commands on values, as Redis words them.
const (
	errNotFloat           = "ERR value is not a valid float"
	errNoSuchKey          = "ERR no such key"
	errNaN                = "ERR increment would produce NaN or Infinity"
	errSumOverflow        = "ERR increment or decrement would overflow"
	errStringTooLong      = "ERR string exceeds maximum allowed size (64 kB)"
	errCollectionTooLarge = "ERR a sorted set, hash, list or set may have at most 1 MB"
	errBounds             = "ERR LBOUND is above UBOUND"
)

// txn is one atomic step on keys. Its error is one of the engine's that ends the step, so that
// what the handlers have made of it is dropped.
type Txn struct {
	*engine.Txn
	Err   error
	After []func() // what happens once the transaction is stored
	Held  int      // bytes that they hold
}

// note keeps an error that ends the step. It returns any other one.
func (t *Txn) Note(err error) error {
	switch err {
	case engine.ErrUndeclared, engine.ErrTooMany, engine.ErrClosed:
		if t.Err == nil {
			t.Err = err
		}
		return nil
	}
	return err
}

// Get returns what a key holds; 0 and nil if it is absent. The state is valid until the key is
// written.
func (t *Txn) Get(key []byte) (limit.Kind, []byte) {
	kind, state, err := t.Txn.Get(key)
	_ = t.Note(err)
	return kind, state
}

func (t *Txn) Put(key []byte, kind limit.Kind, state []byte) { _ = t.Note(t.Txn.Put(key, kind, state)) }

// remove removes a key, and reports whether it was there.
func (t *Txn) Remove(key []byte) bool {
	was, err := t.Delete(key)
	_ = t.Note(err)
	return was
}

// inTransaction runs fn in a transaction of the engine on keys. If fn returns false, nothing is
// written. It may run twice.
func (c *call) inTransaction(keys [][]byte, fn func(t *Txn) bool) (ok bool, err error) {
	t := &c.txn
	err = c.states().Update(c.Now, keys, func(et *engine.Txn) error {
		*t = Txn{Txn: et}
		if ok = fn(t); t.Err != nil {
			return t.Err
		}
		if !ok {
			return errAborted
		}
		return nil
	})
	after := t.After
	*t = Txn{}
	c.spare()
	if err == errAborted {
		return false, nil
	}
	if err == nil {
		for _, then := range after {
			then()
		}
	}
	return ok, err
}

// spareMost is the largest buffer, in bytes, that an idle client keeps for its next command on
// values.
const spareMost = 512

// spare lets go of large buffers, and of the command's arguments.
func (c *call) spare() {
	if cap(c.body) > spareMost {
		c.body = nil
	}
	if cap(c.state) > spareMost {
		c.state = nil
	}
	if clear(c.declared); cap(c.declared) > spareMost/24 {
		c.declared = nil
	}
}

// errAborted ends a transaction that writes nothing.
var errAborted = errors.New("server: the transaction is aborted")

// commandKeys returns the keys of the command.
func (c *call) commandKeys() [][]byte {
	c.declared = c.declared[:0]
	c.cmd.Keys(c.Args, func(i int) { c.declared = append(c.declared, c.Args[i]) })
	return c.declared
}

// item is what a key holds, for commands on values.
type item struct {
	kind    limit.Kind // of what is no value; 0: a value, or nothing
	typ     value.Type // value.None: no value
	expires int64      // ms of Unix time; 0: never
	body    []byte
}

// exists reports whether the key exists.
func (it *item) exists() bool { return it.kind != 0 || it.typ != value.None }

// millisecond is in nanoseconds.
const millisecond = 1_000_000

// lastExpiry is the latest time, in ms of Unix time, at which a value can expire: in the year
// 2262. A later one is cut to it.
const lastExpiry = math.MaxInt64 / millisecond

// nowMillis returns the call's time in ms of Unix time.
func (c *call) NowMillis() int64 { return c.Now / millisecond }

// expirySize is the size of the expiry before a value's body.
const expirySize = 8

// typeOf returns the type of a kind's values, and whether they expire; value.None for other kinds.
func typeOf(k limit.Kind) (typ value.Type, timed bool) {
	of, timed, ok := k.Value()
	switch {
	case !ok:
		return value.None, false
	case of == limit.STRING:
		return value.String, timed
	}
	return value.SortedSet + value.Type(of-limit.SORTEDSET)/2, timed
}

// kindOf returns the kind of values of a type that expire, or never do.
func kindOf(typ value.Type, timed bool) limit.Kind {
	k := limit.STRING
	if typ != value.String {
		k = limit.SORTEDSET + 2*limit.Kind(typ-value.SortedSet)
	}
	if timed {
		return k
	}
	return k.Lasting()
}

// item returns what key holds.
func (c *call) item(t *Txn, key []byte) (it item) {
	kind, state := t.Get(key)
	if typ, timed := typeOf(kind); typ != value.None {
		it.typ, it.body = typ, state
		if timed {
			it.expires = int64(binary.LittleEndian.Uint64(state)) / millisecond
			it.body = state[expirySize:]
		}
		return it
	}
	it.kind = kind
	if kind != 0 {
		it.expires, it.body = limit.Milliseconds(limit.Expires(kind, state)), state
	}
	return it
}

// put makes key hold a value. One without a body is no value, nor is one that has expired.
func (c *call) put(t *Txn, key []byte, it *item) {
	if it.body == nil {
		t.Remove(key)
		return
	}
	kind, state := kindOf(it.typ, it.expires != 0), it.body
	if it.expires != 0 {
		b := binary.LittleEndian.AppendUint64(c.state[:0], uint64(min(it.expires, lastExpiry)*millisecond))
		c.state = append(b, it.body...)
		state = c.state
	}
	t.Put(key, kind, state)
}

// of returns what key holds if that is a value of the type, or nothing. Otherwise it replies
// with the error, and ok is false.
func (c *call) of(t *Txn, key []byte, typ value.Type) (it item, ok bool) {
	it = c.item(t, key)
	if it.typ == typ || !it.exists() {
		return it, true
	}
	c.failWrongType(&it, typ.String())
	return it, false
}

// replaceable reports whether what key holds may be replaced by a value of any type. It replies
// with the error for a limit or a lease: its quota must not be forgotten by accident.
func (c *call) replaceable(it *item) bool {
	if it.kind == 0 {
		return true
	}
	c.failWrongType(it, "value")
	return false
}

// failWrongType replies that a key holds something else than it should.
func (c *call) failWrongType(it *item, wants string) {
	c.Reveals = true
	text := errWrongType
	if it.kind != 0 {
		text += ": it holds " + it.kind.String() + ", not a " + wants + "; RL.RESET forgets it"
	}
	c.FailState(text)
}

// failState is fail for an error that depends on state.
func (c *call) FailState(text string) {
	c.Fail(text)
	c.Reveals = true
}

// onKey makes a row of a command on the value of one key, its first argument.
func onKey(name string, arity int, f spec.Flags, group, summary string, step func(*call, *Txn), args ...spec.Argument) command {
	c := onKeys(name, arity, f, 1, group, summary, step, append([]spec.Argument{{Name: "key", Kind: "key"}}, args...)...)
	c.LastKey = 1
	return c
}

// onKeys makes a row of a command on the values of keys: every so many arguments are one.
func onKeys(name string, arity int, f spec.Flags, every int, group, summary string, step func(*call, *Txn), args ...spec.Argument) command {
	if f&spec.Readonly != 0 {
		f |= spec.StaleRead
	}
	return command{
		Command: spec.Command{
			Name: name, Arity: arity, Flags: f, FirstKey: 1, LastKey: -1, Step: every,
			Group: group, Since: "1.0.0", Complexity: "O(n) for n bytes or keys", Summary: summary, Args: args,
		},
		run: (*call).atomically, atomic: step,
	}
}

// atomically runs a command on values in one step of the engine.
func (c *call) atomically() {
	mark := len(c.Out)
	_, err := c.inTransaction(c.commandKeys(), func(t *Txn) bool {
		c.Out, c.Failed = c.Out[:mark], false
		c.cmd.atomic(c, t)
		return true
	})
	if err != nil {
		c.Out = c.Out[:mark]
		c.Fail(limitError(err))
	}
}
