package engine

import (
	"bytes"
	"unsafe"

	"limitdb/limit"
)

// minBuckets is the size of an empty table: the table is never smaller.
const minBuckets = 8

// table is a hash table with chained buckets, of a power of two of them.
//
// A bucket's number is the leading bits of what the hash has left after the
// shard's bits. So the buckets stand in the order of their hashes, and when
// the table doubles, bucket b becomes 2b and 2b+1: whoever walks along the
// hashes misses nothing and needs no history of the table's sizes.
type table struct {
	buckets []*entry
	width   uint  // log2 of the number of buckets
	skip    uint  // leading bits of a hash that are the shard's
	n       int   // entries
	bytes   int64 // of buckets and entries
}

// entry is one key. key and state own their memory.
type entry struct {
	next      *entry
	hash      uint64
	algorithm limit.Algorithm
	key       []byte
	state     []byte
}

func newTable(skip uint) table {
	t := table{skip: skip}
	t.resize(3)
	return t
}

func (e *entry) bytes() int64 {
	return int64(unsafe.Sizeof(*e)) + int64(cap(e.key)+cap(e.state))
}

func (e *entry) info() Info {
	return Info{Algorithm: e.algorithm, Expires: limit.Expires(e.algorithm, e.state), Bytes: e.bytes()}
}

func (t *table) bucket(h uint64) **entry {
	return &t.buckets[h<<t.skip>>(64-t.width)]
}

func (t *table) find(h uint64, key []byte) *entry {
	for e := *t.bucket(h); e != nil; e = e.next {
		if e.hash == h && bytes.Equal(e.key, key) {
			return e
		}
	}
	return nil
}

// insert adds a key that is not there.
func (t *table) insert(h uint64, key []byte, a limit.Algorithm, state []byte) {
	if t.n >= len(t.buckets) {
		t.resize(t.width + 1)
	}
	b := t.bucket(h)
	e := &entry{next: *b, hash: h, algorithm: a, key: bytes.Clone(key), state: bytes.Clone(state)}
	*b = e
	t.n++
	t.bytes += e.bytes()
}

func (t *table) update(e *entry, a limit.Algorithm, state []byte) {
	t.bytes -= e.bytes()
	e.algorithm = a
	e.state = append(e.state[:0], state...)
	t.bytes += e.bytes()
}

// remove drops key and tells whether it was there.
func (t *table) remove(h uint64, key []byte) bool {
	for p := t.bucket(h); *p != nil; p = &(*p).next {
		if e := *p; e.hash == h && bytes.Equal(e.key, key) {
			t.unlink(p)
			t.shrink()
			return true
		}
	}
	return false
}

// unlink drops the entry that *p points to and leaves the table's size as it is.
func (t *table) unlink(p **entry) {
	e := *p
	*p = e.next
	t.n--
	t.bytes -= e.bytes()
}

// shrink halves the table while it is an eighth full or less, far enough from
// where it grows that no key can make it go back and forth.
func (t *table) shrink() {
	for len(t.buckets) > minBuckets && t.n <= len(t.buckets)/8 {
		t.resize(t.width - 1)
	}
}

func (t *table) resize(width uint) {
	const pointer = int64(unsafe.Sizeof((*entry)(nil)))
	old := t.buckets
	t.buckets, t.width = make([]*entry, 1<<width), width
	t.bytes += pointer * int64(len(t.buckets)-len(old))
	for _, e := range old {
		for e != nil {
			next := e.next
			b := t.bucket(e.hash)
			e.next, *b = *b, e
			e = next
		}
	}
}
