package limit

import "encoding/binary"

// A block shuts a key out for a while. It is around any algorithm: with BLOCK t, a denial
// under the limit blocks the key for t, and until that is over every take is denied.
//
//	blocked   ⇔ now < until
//	a denial at now that is not blocked:  length = t, until = now + length
//	with UPTO max, if now < until + t:    length = min(2·length, max)
//	wait      = max(until − now, the wait under the algorithm)
//
// until and length are those of the last block. A denial of a blocked key changes nothing: it
// makes the block no longer, and does not count in COUNTDENIED. A cost of 0 looks, and
// begins no block.
//
// A block is the key's. It holds for takes under any limit; but for a limit with a BLOCK of its own, it
// is over when that limit's longest block would be. So whoever shortens BLOCK or UPTO lets
// callers go, and whoever lengthens it changes no block that has begun. What has been taken
// from the key is kept meanwhile, and time gives it back.
//
// Promise: that of the algorithm, and nothing while the key is blocked.
//
// A key that is blocked, or whose next block may be doubled, has a state of the kind BLOCK around
// that of its algorithm. All others have none of it:
//
//	 0           8           16            (…)         (…)    (…)
//	┌───────────┬───────────┬─────────────┬───────────┬──────┬───────────┐
//	│ expires   │ until     │ length, ns  │ memory    │ kind │ the state │
//	│ Unix ns   │ Unix ns   │ uvarint     │ uvarint   │ 1    │           │
//	└───────────┴───────────┴─────────────┴───────────┴──────┴───────────┘
//
// The memory is for how long after until the block is remembered, in ns. kind is 0 if there is no
// state. It expires when both the memory and the state have.

// Block is the last block of a key. The zero value is that of a key which has none.
type Block struct {
	// Until is when it ends, or has ended, in Unix ns.
	Until int64
	// Length is for how long it is, in ns; 0: there is none.
	Length int64
	// Memory is for how long after its end it counts for the next one, in ns.
	Memory int64
}

// blockHead is the most bytes before the state in one of kind BLOCK.
const blockHead = 8 + 8 + 2*binary.MaxVarintLen64 + 1

// Open reads a state of kind BLOCK: the block, and the state that it is around. kind is 0 and inner nil if
// that has expired at now. The error is ErrState.
func (b *Block) Open(state []byte, now int64) (kind Kind, inner []byte, err error) {
	if len(state) < 8+8 {
		return 0, nil, ErrState
	}
	b.Until = int64(binary.LittleEndian.Uint64(state[8:]))
	rest := state[8+8:]
	length, n := readCount(rest)
	memory, m := readCount(rest[n:])
	if n == 0 || m == 0 || len(rest) == n+m || length == 0 {
		return 0, nil, ErrState
	}
	b.Length, b.Memory = length, memory
	kind, inner = Kind(rest[n+m]), rest[n+m+1:]
	switch {
	case kind == 0 && len(inner) == 0:
		return 0, nil, nil
	case !kind.OfLimit():
		return 0, nil, ErrState
	case Expires(kind, inner) <= now:
		return 0, nil, nil
	}
	return kind, inner, nil
}

// open is Open for a take under l. A key that is blocked needs no state that l's algorithm reads: there is then none.
func (b *Block) open(l *Limit, state []byte, now int64) (kind Kind, inner []byte, err error) {
	kind, inner, err = b.Open(state, now)
	if err != nil || kind == 0 || SameFamily(kind, l.Algorithm.Kind()) {
		return kind, inner, err
	}
	if b.Left(l, now) == 0 {
		err = ErrState
	}
	return 0, nil, err
}

// Put writes a state of kind BLOCK over dst: b around a state, which may be empty and must not overlap dst.
func (b *Block) Put(dst []byte, kind Kind, inner []byte) []byte {
	if len(inner) == 0 {
		kind = 0
	}
	return append(b.head(dst[:0], kind, inner), inner...)
}

// head appends what stands before the state.
func (b *Block) head(dst []byte, kind Kind, inner []byte) []byte {
	expires := b.Until + b.Memory
	if kind != 0 {
		expires = max(expires, Expires(kind, inner))
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(expires))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.Until))
	dst = binary.AppendUvarint(dst, uint64(b.Length))
	dst = binary.AppendUvarint(dst, uint64(b.Memory))
	return append(dst, byte(kind))
}

// Left returns for how long, in ns, takes under l are denied at now; 0 if the key is not
// blocked for them.
func (b *Block) Left(l *Limit, now int64) int64 {
	if b.Length == 0 {
		return 0
	}
	return until(b.end(l), now)
}

// end returns when the block is over for takes under l.
func (b *Block) end(l *Limit) int64 { return b.Until - (b.Length - b.length(l)) }

// length returns how long the block is for takes under l.
func (b *Block) length(l *Limit) int64 {
	if l.Block == 0 {
		return b.Length
	}
	return min(b.Length, max(l.Block, l.BlockMost))
}

// Remembered reports whether the block still matters at now.
func (b *Block) Remembered(now int64) bool {
	return b.Length > 0 && (now < b.Until || now-b.Until >= 0 && now-b.Until < b.Memory)
}

// Begin makes b the block that a denial under l begins at now. The key is not blocked. The error
// is ErrOverflow.
func (b *Block) Begin(l *Limit, now int64) error {
	next := Block{Length: l.Block}
	if l.BlockMost > 0 {
		next.Memory = l.Block
		if ago := now - b.end(l); b.Length > 0 && b.Remembered(now) && 0 <= ago && ago < l.Block {
			next.Length = min(max(2*b.length(l), l.Block), l.BlockMost)
		}
	}
	next.Until = now + next.Length
	if next.Until < now || next.Until > maxInt64-next.Memory {
		return ErrOverflow
	}
	*b = next
	return nil
}

// Deny makes *d, which is that of a Peek or of a Take under l at now, the denial of a key that is blocked
// for left ns.
func (b *Block) Deny(now, left int64, d *Decision) {
	switch {
	case !d.Limited:
		d.Limited, d.Wait = true, left
	case d.Wait != Never:
		d.Wait = max(d.Wait, left)
	}
	d.Remaining = 0
	b.Prolong(now, d)
}

// Prolong makes the Reset of a decision include the time for which the block is remembered.
func (b *Block) Prolong(now int64, d *Decision) {
	if b.Length > 0 {
		d.Reset = max(d.Reset, until(b.Until+b.Memory, now))
	}
}

// TakeBlock is Take for a limit with BLOCK, and for a state of kind BLOCK. k is the kind of the
// state, and as that of next, if next is not nil. It has to be one that l's algorithm reads, or BLOCK; the error is
// ErrState for a BLOCK around another that is over. next is written over dst, or is a new buffer, and never is
// the state itself; dst must not overlap the state. After an error *d is as it was.
func TakeBlock(l *Limit, k Kind, state []byte, now, cost int64, dst []byte, d *Decision) (next []byte, as Kind, err error) {
	var b Block
	inner := state
	if k == BLOCK {
		if k, inner, err = b.open(l, state, now); err != nil {
			return nil, 0, err
		}
	}
	if left := b.Left(l, now); left > 0 {
		if next, err = PeekMoved(l, inner, now, cost, room(dst), d); err != nil {
			return nil, 0, err
		}
		b.Deny(now, left, d)
		if next == nil {
			return nil, 0, nil
		}
		return b.around(dst, l.Algorithm.Kind(), next), BLOCK, nil
	}
	was := *d
	if next, err = takeApart(l, inner, now, cost, room(dst), d); err != nil {
		return nil, 0, err
	}
	if d.Limited && l.Block > 0 && cost > 0 {
		begun := b
		if err := begun.Begin(l, now); err != nil {
			*d = was
			return nil, 0, err
		}
		if next != nil {
			next = begun.around(dst, l.Algorithm.Kind(), next)
		} else {
			next = begun.Put(dst, k, inner)
		}
		begun.Deny(now, begun.Length, d)
		return next, BLOCK, nil
	}
	if !b.Remembered(now) {
		return next, l.Algorithm.Kind(), nil
	}
	if b.Prolong(now, d); next == nil {
		return nil, 0, nil
	}
	return b.around(dst, l.Algorithm.Kind(), next), BLOCK, nil
}

// PeekBlock answers as TakeBlock would, and changes nothing. A denial that would begin a block
// has the wait under the algorithm.
func PeekBlock(l *Limit, k Kind, state []byte, now, cost int64, d *Decision) (err error) {
	var b Block
	if k == BLOCK {
		if _, state, err = b.open(l, state, now); err != nil {
			return err
		}
	}
	left := b.Left(l, now)
	if left > 0 && l.CountDenied {
		own := *l
		own.CountDenied = false
		err = Peek(&own, state, now, cost, d)
	} else {
		err = Peek(l, state, now, cost, d)
	}
	switch {
	case err != nil:
	case left > 0:
		b.Deny(now, left, d)
	case b.Remembered(now):
		b.Prolong(now, d)
	}
	return err
}

// room returns where in dst the state may be written before its head.
func room(dst []byte) []byte {
	if cap(dst) < blockHead+MaxState {
		return nil
	}
	return dst[blockHead:blockHead]
}

// around is Put for a state that may lie in room(dst).
func (b *Block) around(dst []byte, kind Kind, inner []byte) []byte {
	var buf [blockHead]byte
	head := b.head(buf[:0], kind, inner)
	n := len(head) + len(inner)
	if cap(dst) < n {
		dst = make([]byte, n)
	}
	dst = dst[:n]
	copy(dst[len(head):], inner)
	copy(dst, head)
	return dst
}

// takeApart is Take that leaves the state as it is.
func takeApart(l *Limit, state []byte, now, cost int64, dst []byte, d *Decision) (next []byte, err error) {
	if len(state) > MaxState && l.Algorithm == LOG { // which changes in place
		state = append(dst[:0], state...)
		dst = state[:0]
	}
	return Take(l, state, now, cost, dst, d)
}

// PeekMoved is Peek, and counts nothing. For a denial that moves the state to the pace of a limit that was raised,
// next is that state, as for Take.
func PeekMoved(l *Limit, state []byte, now, cost int64, dst []byte, d *Decision) (next []byte, err error) {
	if l.CountDenied {
		own := *l
		own.CountDenied = false
		l = &own
	}
	if err := Peek(l, state, now, cost, d); err != nil || !d.Limited || cost == 0 || l.Algorithm == LOG {
		return nil, err
	}
	return Take(l, state, now, cost, dst, d)
}
