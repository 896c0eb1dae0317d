package groups

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func node(id string) Node { return Node{ID: id, Client: id + ":1", Raft: id + ":2", Weight: 100} }

// records has one of each kind, and its bytes. They are in logs, so they must be read for good.
func records() []struct {
	Record
	bytes string
} {
	return []struct {
		Record
		bytes string
	}{
		{Begin{4, 3, Node{ID: "n1", Client: "c:1", Raft: "r:2", Zone: "a", Weight: 100}}, "0101040302006e310300633a310300723a32010061640000c729f477"},
		{SetReplicas{5}, "010205f61591d7"},
		{SetNode{Node{ID: "n2", Client: "c:3", Raft: "r:4", Weight: MaxWeight, Draining: true}}, "010302006e320300633a330300723a3400001027018bd0d31c"},
		{Drain{"n2", true}, "010402006e3201fbbc4b4b"},
		{RemoveNode{"n2", 1 << 40}, "010502006e320000000000010000319fa6b1"},
		{SetPlace{2, 7, []string{"n1", "n2"}, "n2"}, "0106020700000000000000020002006e3102006e3202006e321ff12440"},
		{SetPlace{0, math.MaxUint64, []string{"n1"}, ""}, "010600ffffffffffffffff010002006e3100000bf35bae"},
		{Complete{64, 7}, "010740070000000000000029f2406d"},
	}
}

func TestRecordBytes(t *testing.T) {
	for _, r := range records() {
		b, err := Append([]byte("x"), r.Record)
		if got := hex.EncodeToString(b[1:]); err != nil || got != r.bytes {
			t.Errorf("%#v is %s, not %s: %v", r.Record, got, r.bytes, err)
		}
		old, err := hex.DecodeString(r.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Read(old); err != nil || !reflect.DeepEqual(got, r.Record) {
			t.Errorf("%s is %#v, %v", r.bytes, got, err)
		}
	}
}

// No record passes for another one when bits flip or its end is missing.
func TestDamagedRecords(t *testing.T) {
	for _, r := range records() {
		b, err := Append(nil, r.Record)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(b) * 8 {
			b[i/8] ^= 1 << (i % 8)
			if got, err := Read(b); err == nil {
				t.Errorf("%#v with bit %d flipped is %#v", r.Record, i, got)
			}
			b[i/8] ^= 1 << (i % 8)
		}
		for n := range b {
			if _, err := Read(b[:n]); !errors.Is(err, ErrFormat) {
				t.Errorf("%#v cut to %d bytes: %v", r.Record, n, err)
			}
		}
	}
	for what, want := range map[string]struct {
		b   []byte
		err error
	}{
		"a newer format":     {sealed(2, 1), ErrNewer},
		"format 0":           {sealed(0, 1), ErrFormat},
		"an unknown kind":    {sealed(1, 8), ErrNewer},
		"a snapshot":         {AppendSnapshot(nil, Directory{}), ErrFormat},
		"bytes behind":       {sealed(1, 2, 3, 0), ErrFormat},
		"no truth value":     {sealed(1, 4, 1, 0, 'a', 2), ErrFormat},
		"a long id":          {sealed(1, 4, 64, 0, 'a'), ErrFormat},
		"too many ids":       {sealed(1, 6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0), ErrFormat},
		"a very long record": {make([]byte, MaxRecord+1), ErrFormat},
	} {
		if got, err := Read(want.b); !errors.Is(err, want.err) {
			t.Errorf("%s: %#v, %v, want %v", what, got, err, want.err)
		}
	}
}

func sealed(format byte, k kind, body ...byte) []byte {
	b := seal(nil, k, func(b []byte) []byte { return append(b, body...) })
	b[0] = format
	return append(b[:len(b)-4], seal(nil, 0, func([]byte) []byte { return b[:len(b)-4] })[len(b)-4:]...)
}

// The largest record is not too large, and what cannot be read is not written.
func TestRecordBounds(t *testing.T) {
	long := strings.Repeat("a", MaxName)
	address := strings.Repeat("b", MaxAddress)
	var ids []string
	for i := range MaxReplicas {
		ids = append(ids, long[1:]+string(rune('a'+i)))
	}
	for _, r := range []Record{
		Begin{64, 5, Node{ID: long, Client: address, Raft: address + "", Zone: long, Weight: MaxWeight}},
		SetPlace{64, 1, ids, ids[4]},
	} {
		b, err := Append(nil, r)
		if err != nil || len(b) > MaxRecord {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		if got, err := Read(b); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%#v, %v", got, err)
		}
	}
	bad := func(change func(*Node)) Record {
		n := node("a")
		change(&n)
		return SetNode{n}
	}
	for _, r := range []Record{
		Begin{3, 3, node("a")},
		Begin{128, 3, node("a")},
		Begin{4, 2, node("a")},
		Begin{4, 3, node("")},
		SetReplicas{0},
		SetReplicas{4},
		SetReplicas{259},
		bad(func(n *Node) { n.ID = long + "a" }), bad(func(n *Node) { n.ID = "a b" }), bad(func(n *Node) { n.ID = "a@1" }),
		bad(func(n *Node) { n.Client = "" }), bad(func(n *Node) { n.Raft = address + "b" }), bad(func(n *Node) { n.Client = "ä:1" }),
		bad(func(n *Node) { n.Zone = "eu 1" }), bad(func(n *Node) { n.Weight = 0 }), bad(func(n *Node) { n.Weight = MaxWeight + 1 }),
		Drain{},
		RemoveNode{ID: "\x00"},
		SetPlace{65, 1, []string{"a"}, ""},
		SetPlace{-1, 1, []string{"a"}, ""},
		SetPlace{256, 1, []string{"a"}, ""},
		SetPlace{1, 0, []string{"a"}, ""},
		SetPlace{1, 1, nil, ""},
		SetPlace{1, 1, []string{"b", "a"}, ""},
		SetPlace{1, 1, []string{"a", "a"}, ""},
		SetPlace{1, 1, []string{"a"}, "b"},
		SetPlace{0, 1, []string{"a"}, "a"},
		SetPlace{1, 1, []string{"a", "b", "c", "d", "e", "f"}, ""},
		Complete{-1, 1},
		Complete{65, 1},
	} {
		if b, err := Append(nil, r); !errors.Is(err, ErrInvalid) || len(b) != 0 {
			t.Errorf("%#v: %v", r, err)
		}
		if _, err := begun(t, "a", "b", "c").Apply(r); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrBegun) {
			t.Errorf("%#v is applied: %v", r, err)
		}
	}
}

// FuzzRecord reads any bytes. What is read has the bytes that it was read from, and changes a directory into another that can be.
func FuzzRecord(f *testing.F) {
	for _, r := range records() {
		b, err := hex.DecodeString(r.bytes)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-4])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 {
			return
		}
		b = sealed(b[0], kind(b[1]), b[2:]...)
		r, err := Read(b)
		if err != nil {
			return
		}
		if again, err := Append(nil, r); err == nil && !bytes.Equal(again, b) {
			t.Fatalf("%x is %#v, which is %x", b, r, again)
		}
		for _, d := range []Directory{{}, begun(t, "n1", "n2", "n3")} {
			next, err := d.Apply(r)
			if err := next.Check(); err != nil {
				t.Fatalf("%#v: %v", r, err)
			}
			if err != nil && !reflect.DeepEqual(next, d) {
				t.Fatalf("%#v is refused with %v, and changes something", r, err)
			}
		}
	})
}
