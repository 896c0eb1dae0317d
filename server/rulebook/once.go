package rulebook

import (
	"bytes"

	"limitdb/engine"
	"limitdb/rules"
	"limitdb/server/request"
)

// A check counts once under its id by what the client has asked: the namespace, the fields and the cost. Which rules
// these lead to may change before it asks again. So the id is not beside the key of a rule's caller, but beside a key of
// its own, under which nothing else is ever kept. A namespace may have as many ids as there is memory. With shard_by, the key has the hash tag
// of the check, so that it is in the slot of the callers; the same id beside another tag is another one.

// oncePrefix begins these keys. None of them is the key of a caller.
const oncePrefix = rules.Prefix + "\x00once\x00"

// counted is the ONCE of a check. Its slices are reused.
type counted struct {
	given  bool
	args   request.Args
	fields [][]byte // names and values, as the client has sent them; valid until the check is prepared
	key    []byte
	idAt   int // where the id begins in key
	keys   [][]byte
	to     engine.Once
}

// of notes the ONCE of a check with these options. It returns the text of the error, or "".
func (o *counted) of(a *request.Args, k *check) (text string) {
	if o.given = a.Given&request.OwnOnce != 0; !o.given {
		return ""
	}
	if k.how != takes {
		return "ERR syntax error: ONCE is for a check that takes"
	}
	o.args = *a
	o.key = append(append(o.key[:0], oncePrefix...), k.Tag()...) // a name of a namespace has no brace
	o.key = append(append(o.key, k.ns.Name()...), 0)
	o.idAt = len(o.key)
	o.key = append(o.key, a.OnceID...)
	return ""
}

// once returns the engine's form of it; nil if it is not given.
func (o *counted) once(k *check) *engine.Once {
	if !o.given {
		return nil
	}
	asked := request.AskedText(uint64(k.cost), nil)
	for f := o.fields; len(f) > 0; f = f[2:] { // in any order: a client may have them in a map
		asked += request.AskedText(request.AskedText(0, f[0]), f[1])
	}
	o.args.Once(&o.to, asked)
	o.fields, o.args.OnceID = nil, nil
	return o.beside()
}

// id returns the id, or nil if none is given.
func (o *counted) id() []byte {
	if !o.given {
		return nil
	}
	return o.key[o.idAt:]
}

// beside has the engine remember the id beside its key. It needs no other name there, so it has the first byte of the key.
func (o *counted) beside() *engine.Once {
	o.to.Key, o.to.ID = o.key, o.key[:1]
	return &o.to
}

// with returns keys and that of the id.
func (o *counted) with(keys [][]byte) [][]byte {
	o.keys = append(append(o.keys[:0], keys...), o.key)
	return o.keys
}

// keep is once for a copy of a check that has it in from.
func (o *counted) keep(from *counted) *engine.Once {
	if o.given = from.given; !o.given {
		return nil
	}
	o.key, o.idAt, o.to = bytes.Clone(from.key), from.idAt, from.to
	return o.beside()
}
