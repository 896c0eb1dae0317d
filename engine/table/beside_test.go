package table

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// besideModel is a table, and two maps that it must agree with: the states of keys, and what is beside them.
type besideModel struct {
	*tableModel
	beside map[string][]byte
	now    int64
}

func (m *besideModel) spots(k []byte) (key, beside Spot) {
	h := Hash(k, m.t.seed)
	return Spot{Hash: h, Key: k}, Spot{Hash: Beside(h), Key: k, Beside: true}
}

// same compares the table with the maps, through every way to find a state.
func (m *besideModel) same(t *rapid.T, keys int) {
	m.check()
	joint := 0
	for i := range keys {
		k := key(i)
		a, b := m.spots(k)
		m.t.FindBoth(&a, &b)
		alone, besideAlone := m.spots(k)
		m.t.Find(&alone)
		m.t.Find(&besideAlone)
		for _, sp := range []*Spot{&a, &alone} {
			if want := m.want[string(k)]; sp.Found() != (want != nil) || want != nil && (!bytes.Equal(m.t.State(sp), want) || sp.Kind() != limit.GCRA.Kind()) {
				t.Fatalf("%s is there: %t, want %x", k, sp.Found(), want)
			}
		}
		for _, sp := range []*Spot{&b, &besideAlone} {
			if want := m.beside[string(k)]; sp.Found() != (want != nil) || want != nil && (!bytes.Equal(m.t.State(sp), want) || sp.Kind() != limit.HOLDS) {
				t.Fatalf("beside %s is there: %t, want %x", k, sp.Found(), want)
			}
		}
		if a.Found() && a.r.blen() > 0 {
			joint++
		}
		if a.Found() && b.Found() != m.t.hasBeside(a.r) {
			t.Fatalf("something is beside %s: %t", k, b.Found())
		}
	}
	if joint != m.t.joint || m.t.Besides() != len(m.beside) || m.t.Stats().Keys != len(m.want) {
		t.Fatalf("%d joint, counted %d; %d beside, want %d; %d keys, want %d", joint, m.t.joint, m.t.Besides(), len(m.beside), m.t.Stats().Keys, len(m.want))
	}
	walked := [2]map[string]int64{{}, {}}
	for cursor := uint64(0); ; {
		_, cursor = m.t.Walk(math.MinInt64, cursor, 100, func(key []byte, info Info) {
			of := walked[0]
			if info.Kind == limit.HOLDS {
				of = walked[1]
			}
			of[string(key)] = info.Expires
		})
		if cursor == 0 {
			break
		}
	}
	for i, want := range []map[string][]byte{m.want, m.beside} {
		for k, state := range want {
			if got, ok := walked[i][k]; !ok || got != Expires(limit.GCRA.Kind(), state) || len(walked[i]) != len(want) {
				t.Fatalf("a walk finds %v, want %s and %d others", walked[i], k, len(want)-1)
			}
		}
	}
	copied := [2]map[string][]byte{{}, {}}
	boxes, _ := m.t.Copy(math.MinInt64, 0, func(kind limit.Kind, key, state []byte) {
		of := copied[0]
		if kind == limit.HOLDS {
			of = copied[1]
		}
		if of[string(key)] != nil {
			t.Fatalf("%s is copied twice", key)
		}
		of[string(key)] = state
	})
	for i := range boxes {
		m.t.Find(&boxes[i])
		of := copied[0]
		if boxes[i].Kind() == limit.HOLDS {
			of = copied[1]
		}
		of[string(boxes[i].Key)] = m.t.State(&boxes[i])
	}
	for i, want := range []map[string][]byte{m.want, m.beside} {
		if len(copied[i]) != len(want) {
			t.Fatalf("%d states are copied, want %d", len(copied[i]), len(want))
		}
		for k, state := range want {
			if !bytes.Equal(copied[i][k], state) {
				t.Fatalf("%s is copied as %x, want %x", k, copied[i][k], state)
			}
		}
	}
}

// What is beside a key is there whatever happens to the key, and the other way round: wherever the two are kept.
func TestBeside(t *testing.T) {
	const keys = 12 // in one segment
	joint, apart, left, both := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := &besideModel{newTableModel(rapid.Uint64().Draw(t, "seed")), map[string][]byte{}, start}
		lengths := rapid.SampledFrom([]int{8, 9, 17, maxJointState - 1, maxJointState, maxJointState + 1, 120, 127, 128, 300, maxInline + 1})
		besides := rapid.SampledFrom([]int{13, 60, 61, 95, 96, 127, 128, 300, maxBeside - 1, maxBeside, maxBeside + 1, 3000, maxInline, maxInline + 1})
		for i := range rapid.IntRange(1, 400).Draw(t, "steps") {
			k := key(rapid.IntRange(0, keys-1).Draw(t, "key"))
			a, b := m.spots(k)
			expires := m.now + rapid.Int64Range(1, 5).Draw(t, "expires")*second
			switch rapid.IntRange(-2, 9).Draw(t, "what") {
			case -2, -1:
				state, beside := stateOf(expires, lengths.Draw(t, "length"), byte(i)), stateOf(expires+second, besides.Draw(t, "length"), byte(i))
				if m.t.FindBoth(&a, &b); !Join(&a, &b, len(state), len(beside)) {
					continue
				}
				both++
				if err := m.t.PutBoth(m.now, &a, Mark(limit.GCRA), state, beside, true); err != nil {
					t.Fatal(err)
				}
				m.want[string(k)], m.beside[string(k)] = state, beside
			case 0, 1, 2:
				state := stateOf(expires, lengths.Draw(t, "length"), byte(i))
				if m.t.Find(&a); a.Found() && rapid.Bool().Draw(t, "as long") {
					state = stateOf(expires, len(m.want[string(k)]), byte(i))
				}
				if err := m.t.Put(m.now, &a, Mark(limit.GCRA), state, true); err != nil {
					t.Fatal(err)
				}
				m.want[string(k)] = state
			case 3, 4, 5, 6:
				state := stateOf(expires, besides.Draw(t, "length"), byte(i))
				if m.t.Find(&b); b.Found() && rapid.Bool().Draw(t, "as long") {
					state = stateOf(expires, len(m.beside[string(k)]), byte(i))
				}
				if err := m.t.Put(m.now, &b, Unknown(limit.HOLDS), state, true); err != nil {
					t.Fatal(err)
				}
				m.beside[string(k)] = state
			case 7:
				if m.t.Find(&a); a.Found() {
					m.t.Remove(&a)
					delete(m.want, string(k))
					if _, ok := m.beside[string(k)]; ok {
						left++
					}
				}
			case 8:
				if m.t.Find(&b); b.Found() {
					m.t.Remove(&b)
					delete(m.beside, string(k))
				}
			default:
				m.now += rapid.Int64Range(0, 4).Draw(t, "later") * second
				if rapid.Bool().Draw(t, "looked at") {
					for i := range keys {
						a, b := m.spots(key(i))
						m.t.Live(m.now, &b)
						m.t.Live(m.now, &a)
					}
				} else {
					m.t.lookup(0).rest = 0
					m.sweepAll(m.now)
				}
				for _, of := range []map[string][]byte{m.want, m.beside} {
					for k, state := range of {
						if Expires(limit.GCRA.Kind(), state) <= m.now {
							delete(of, k)
						}
					}
				}
			}
			m.same(t, keys)
			joint += m.t.joint
			apart += m.t.beside
		}
	})
	if joint < 1000 || apart < 1000 || left < 20 || both < 100 {
		t.Errorf("%d were joint, %d apart, and %d were left alone; %d were put at once", joint, apart, left, both)
	}
}

// A change of both, in one step, has the room that MakeRoom has made.
func TestMakeRoomBeside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &besideModel{newTableModel(rapid.Uint64().Draw(t, "seed")), map[string][]byte{}, start}
		n := rapid.IntRange(1, 900).Draw(t, "keys")
		for i := range n {
			if err := m.set(key(i), stateOf(start+second, 8+i%24, 1)); err != nil {
				t.Fatal(err)
			}
		}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			k := key(rapid.IntRange(0, n+2).Draw(t, "key"))
			a, b := m.spots(k)
			state := stateOf(start+second, rapid.IntRange(8, 64).Draw(t, "length"), byte(step))
			beside := stateOf(start+second, rapid.SampledFrom([]int{60, 61, 500, maxBeside, maxBeside + 1}).Draw(t, "beside"), byte(step))
			m.t.FindBoth(&a, &b)
			changes := []*Change{{Spot: a, Table: m.t, State: state}, {Spot: b, Table: m.t, State: beside}}
			if b.Hash < a.Hash {
				changes[0], changes[1] = changes[1], changes[0]
			}
			moved, _, err := MakeRoom(start, changes)
			if err != nil {
				t.Fatal(err)
			}
			made := m.t.lookup(a.Hash)
			for _, c := range []*Change{changes[0], changes[1]} {
				if c.Beside { // after its key
					continue
				}
				m.put2(t, c, Mark(limit.GCRA), moved)
			}
			for _, c := range changes {
				if c.Beside {
					m.put2(t, c, Unknown(limit.HOLDS), moved)
				}
			}
			if m.t.lookup(a.Hash) != made {
				t.Fatal("there was not enough room")
			}
			m.want[string(k)], m.beside[string(k)] = state, beside
			m.same(t, n+3)
		}
	})
}

func (m *besideModel) put2(t *rapid.T, c *Change, mark Mark, moved bool) {
	if moved {
		m.t.Find(&c.Spot)
	}
	if err := m.t.Put(start, &c.Spot, mark, c.State, true); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", c.Key, err))
	}
}

// A key is not evicted for what comes beside it.
func TestKeyIsNotEvictedForItsOwn(t *testing.T) {
	m := newTableModel(3)
	m.a.SetLimit(256<<10, true)
	put, refused := 0, 0
	for i := range 6000 {
		if err := m.put(start, key(i), stateOf(start+second*int64(1+i%7), 8, 1)); err != nil && err != ErrNoRoom {
			t.Fatal(err)
		}
		k := key(i)
		h := Hash(k, m.t.seed)
		a, b := Spot{Hash: h, Key: k}, Spot{Hash: Beside(h), Key: k, Beside: true}
		if m.t.FindBoth(&a, &b); !a.Found() || i%2 > 0 { // the others may go
			continue
		}
		switch err := m.t.Put(start, &b, Unknown(limit.HOLDS), stateOf(start+second, 60+i%40, 2), false); err {
		case nil:
			put++
		case ErrNoRoom:
			refused++
		default:
			t.Fatal(err)
		}
		if m.t.Find(&a); !a.Found() {
			t.Fatalf("%s has gone", k)
		}
		m.check()
	}
	if put < 500 || refused < 10 || m.t.Stats().Evicted < 100 {
		t.Errorf("%d put, %d refused, %d evicted", put, refused, m.t.Stats().Evicted)
	}
}
