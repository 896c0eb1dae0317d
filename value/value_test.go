package value

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// collection is what all collections have.
type collection interface {
	Body() []byte
	Splices() []Splice
	Err() error
	Len() int
}

// apply returns the body after the splice.
func (s Splice) apply(body []byte) []byte {
	return slices.Concat(body[:s.At], s.Ins, body[s.At+s.Del:])
}

// step runs one change on a body and checks what holds for all: the body that was opened is untouched, the
// splices make the new one, and it is valid.
func step[C collection](t *rapid.T, of Type, body []byte, open func([]byte) C, change func(c C)) []byte {
	before := bytes.Clone(body)
	c := open(body)
	change(c)
	if c.Err() != nil {
		t.Fatal(c.Err())
	}
	if !bytes.Equal(body, before) {
		t.Fatalf("the opened body has changed: %q, it was %q", body, before)
	}
	replayed, after := before, c.Body()
	for _, s := range c.Splices() {
		replayed = s.apply(replayed)
	}
	switch l, ok := any(c).(*ListOf); {
	case !ok:
	case after == nil:
		if c.Splices() == nil {
			replayed = nil
		}
	case l.Late():
		after = replayed
	case Packed(before) != Packed(after):
		if c.Splices() != nil {
			t.Fatal("the body has got another form by splices")
		}
		replayed = after
	}
	if open(replayed).Len() == 0 {
		replayed = nil
	}
	if !bytes.Equal(replayed, after) {
		t.Fatalf("the splices make %.99q of %.99q, not %.99q", replayed, before, after)
	}
	if c.Len() > 0 && !valid(of, after) {
		t.Fatalf("%.99q is not valid", after)
	}
	return bytes.Clone(after)
}

func words() *rapid.Generator[[]byte] {
	return rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b", "c", "10", "-3", "long " + strings.Repeat("x", 200)}), func(s string) []byte { return []byte(s) }),
		rapid.SliceOfN(rapid.Byte(), 0, 5),
	)
}

func TestListAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var body []byte
		var model []string
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w := rapid.SliceOfN(words(), 1, 4).Draw(t, "words")
			n := rapid.IntRange(0, len(model)).Draw(t, "n")
			i, j := rapid.Int64Range(-9, 9).Draw(t, "i"), rapid.Int64Range(-9, 9).Draw(t, "j")
			op := rapid.IntRange(0, 4).Draw(t, "op")
			body = step(t, List, body, OpenList, func(l *ListOf) {
				switch op {
				case 0:
					l.PushLeft(w...)
					for _, text := range w {
						model = slices.Insert(model, 0, string(text))
					}
				case 1:
					l.PushRight(w...)
					for _, text := range w {
						model = append(model, string(text))
					}
				case 2, 3:
					pop, want := l.PopLeft, slices.Clone(model[:n])
					if op == 3 {
						pop, want = l.PopRight, slices.Clone(model[len(model)-n:])
						slices.Reverse(want)
						model = model[:len(model)-n]
					} else {
						model = model[n:]
					}
					got := []string{}
					pop(n, func(text []byte) { got = append(got, string(text)) })
					if !slices.Equal(got, want) {
						t.Fatalf("popped %q, not %q", got, want)
					}
				case 4:
					l.Trim(i, j)
					model = slices.Clone(sliced(model, i, j))
				}
			})
			l := OpenList(body)
			got := []string{}
			l.Range(i, j, func(n int) {
				if n != len(sliced(model, i, j)) {
					t.Fatalf("%d elements from %d to %d of %q", n, i, j, model)
				}
			}, func(text []byte) { got = append(got, string(text)) })
			if !slices.Equal(got, sliced(model, i, j)) || l.Len() != len(model) {
				t.Fatalf("%q from %d to %d of %q", got, i, j, model)
			}
			at := i
			if at < 0 {
				at += int64(len(model))
			}
			text, ok := l.Index(i)
			if in := at >= 0 && at < int64(len(model)); ok != in || in && string(text) != model[at] {
				t.Fatalf("index %d of %q: %q, %v", i, model, text, ok)
			}
		}
	})
}

// sliced is the part of a model from i to j as LRANGE counts them.
func sliced(model []string, i, j int64) []string {
	out := []string{}
	n := int64(len(model))
	for k, s := range model {
		at := int64(k)
		if (i >= 0 && at >= i || i < 0 && at >= n+i) && (j >= 0 && at <= j || j < 0 && at <= n+j) {
			out = append(out, s)
		}
	}
	return out
}

func TestHashAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var body []byte
		model := map[string]string{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			pairs := rapid.SliceOfN(words(), 1, 6).Draw(t, "pairs")
			pairs = append(pairs, pairs...)[:len(pairs)/2*2+2] // an even number; some fields come twice
			had := len(model)
			body = step(t, Hash, body, OpenHash, func(h *HashOf) {
				changed := 0
				if rapid.Bool().Draw(t, "set") {
					changed = h.Set(pairs...)
					for i := 0; i < len(pairs); i += 2 {
						model[string(pairs[i])] = string(pairs[i+1])
					}
				} else {
					changed = -h.Remove(pairs...)
					for _, f := range pairs {
						delete(model, string(f))
					}
				}
				if changed != len(model)-had {
					t.Fatalf("%d fields became %d, and not by %d", had, len(model), changed)
				}
			})
			h, got := OpenHash(body), map[string]string{}
			h.Each(func(field, value []byte) { got[string(field)] = string(value) })
			if !maps.Equal(got, model) || h.Len() != len(model) {
				t.Fatalf("%q, not %q", got, model)
			}
			for i, p := range h.Find(pairs, 1) {
				text, there := model[string(pairs[i])]
				if p = h.Find(pairs, 1)[p.Same]; p.There != there || string(p.Value) != text {
					t.Fatalf("%q is %q, %v, not %q", pairs[i], p.Value, p.There, text)
				}
				if v, ok := h.Get(pairs[i]); ok != there || string(v) != text {
					t.Fatalf("%q is %q, %v, not %q", pairs[i], v, ok, text)
				}
			}
		}
	})
}

func TestSetAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var body []byte
		model := map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			members := rapid.SliceOfN(words(), 1, 6).Draw(t, "members")
			had := len(model)
			body = step(t, Set, body, OpenSet, func(s *SetOf) {
				changed := 0
				if rapid.Bool().Draw(t, "add") {
					changed = s.Add(members...)
					for _, m := range members {
						model[string(m)] = true
					}
				} else {
					changed = -s.Remove(members...)
					for _, m := range members {
						delete(model, string(m))
					}
				}
				if changed != len(model)-had {
					t.Fatalf("%d members became %d, and not by %d", had, len(model), changed)
				}
			})
			s, got := OpenSet(body), map[string]bool{}
			s.Each(func(member []byte) { got[string(member)] = true })
			if !maps.Equal(got, model) || s.Len() != len(model) {
				t.Fatalf("%v, not %v", got, model)
			}
			for i, p := range s.Find(members, 1) {
				if s.Find(members, 1)[p.Same].There != model[string(members[i])] {
					t.Fatalf("%q is there as little as in %v", members[i], model)
				}
			}
		}
	})
}

type pair struct {
	member string
	score  float64
}

func scores() *rapid.Generator[float64] {
	return rapid.SampledFrom([]float64{math.Inf(-1), -2, -1, 0, 0.1, 1, 2, 1e300, math.Inf(1)})
}

func TestSortedSetAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var body []byte
		var model []pair
		find := func(m string) int {
			return slices.IndexFunc(model, func(p pair) bool { return p.member == m })
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pair {
				return pair{string(words().Draw(t, "member")), scores().Draw(t, "score")}
			}), 1, 6).Draw(t, "pairs")
			names := make([][]byte, len(all))
			for i := range all {
				names[i] = []byte(all[i].member)
			}
			r := Scores{Min: scores().Draw(t, "min"), Max: scores().Draw(t, "max"), MinOpen: rapid.Bool().Draw(t, "("), MaxOpen: rapid.Bool().Draw(t, ")")}
			i, j := rapid.Int64Range(-9, 9).Draw(t, "i"), rapid.Int64Range(-9, 9).Draw(t, "j")
			in := func(p pair) bool { return !r.below(p.score) && !r.above(p.score) }
			op := rapid.IntRange(0, 5).Draw(t, "op")
			body = step(t, SortedSet, body, OpenSortedSet, func(z *SortedSetOf) {
				switch op {
				case 0, 1, 2:
					places := z.Find(names, 1)
					for i, p := range all {
						to := &places[places[i].Same]
						if at := find(p.member); to.There != (at >= 0) || at >= 0 && to.Score != model[at].score {
							t.Fatalf("%q has %v, %v in %v", p.member, to.Score, to.There, model)
						} else if at >= 0 {
							model = slices.Delete(model, at, at+1)
						}
						to.There, to.Score = true, p.score
						model = append(model, p)
					}
					z.Put(places)
				case 3:
					had := len(model)
					gone := z.Remove(names...)
					model = slices.DeleteFunc(model, func(p pair) bool {
						return slices.ContainsFunc(all, func(q pair) bool { return q.member == p.member })
					})
					if gone != had-len(model) {
						t.Fatalf("%d are gone, not %d", gone, had-len(model))
					}
				case 4:
					z.RemoveSpan(z.ByScore(r))
					model = slices.DeleteFunc(model, in)
				case 5:
					z.RemoveSpan(z.ByRank(i, j))
					gone := ranks(model, i, j)
					model = slices.DeleteFunc(model, func(p pair) bool { return slices.Contains(gone, p) })
				}
				slices.SortFunc(model, func(a, b pair) int {
					return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.member, b.member))
				})
			})
			z := OpenSortedSet(body)
			check := func(what string, s Span, want []pair) {
				var got, back []pair
				z.Each(s, func(m []byte, x float64) bool { got = append(got, pair{string(m), x}); return true })
				z.EachBack(s, func(m []byte, x float64) bool { back = append(back, pair{string(m), x}); return true })
				slices.Reverse(back)
				if !slices.Equal(got, want) || !slices.Equal(back, want) || s.Count != len(want) || s.Count > 0 && model[s.First] != want[0] {
					t.Fatalf("%s: %v, %v, not %v of %v", what, got, back, want, model)
				}
			}
			check("all", z.ByRank(0, -1), model)
			check("ranks", z.ByRank(i, j), ranks(model, i, j))
			check("scores", z.ByScore(r), slices.DeleteFunc(slices.Clone(model), func(p pair) bool { return !in(p) }))
		}
	})
}

func ranks(model []pair, i, j int64) (out []pair) {
	names := make([]string, len(model))
	for k := range names {
		names[k] = strconv.Itoa(k)
	}
	for _, name := range sliced(names, i, j) {
		k, _ := strconv.Atoi(name)
		out = append(out, model[k])
	}
	return out
}

// A change writes about as much as it adds, whatever the size of the collection.
func TestSplicesAreAsLargeAsTheChange(t *testing.T) {
	var body []byte
	for i := range 5000 {
		z := OpenSortedSet(body)
		p := z.Find([][]byte{[]byte("request " + strconv.Itoa(i))}, 1)
		p[0].There, p[0].Score = true, float64(i)
		z.Put(p)
		if n := written(z.Splices()); n > 64 {
			t.Fatalf("member %d writes %d bytes", i, n)
		}
		body = z.Body()
	}
	z := OpenSortedSet(body)
	z.RemoveSpan(z.ByScore(Scores{Min: math.Inf(-1), Max: 4000}))
	if n := written(z.Splices()); n > 64 || z.Len() != 999 {
		t.Fatalf("%d are left, with %d bytes", z.Len(), n)
	}
}

// A command on very many elements goes through the collection a few times, not once for each, and neighbours
// leave as one. If not, this takes minutes.
func TestManyElementsTakeOnePass(t *testing.T) {
	const n = 120_000
	names := make([][]byte, n)
	for i := range names {
		names[i] = []byte(strconv.Itoa(i))
	}
	l := OpenList(nil)
	l.PushRight(make([][]byte, MaxCollection-headSize)...)
	l.PushLeft(nil)
	if l.Err() == nil {
		t.Error("a list has over 1 MB")
	}
	l = OpenList(nil)
	l.PushRight(make([][]byte, MaxCollection-headSize)...)
	body := l.Body()
	for _, pop := range []func(*ListOf, int, func([]byte)){(*ListOf).PopLeft, (*ListOf).PopRight} {
		popped := 0
		l = OpenList(body)
		pop(l, l.Len()-1, func([]byte) { popped++ })
		if popped != MaxCollection-headSize-1 || l.Len() != 1 || written(l.Splices()) > 24 {
			t.Errorf("popped %d, %d are left, %d bytes written", popped, l.Len(), written(l.Splices()))
		}
	}
	s := OpenSet(nil)
	if s.Add(names...) != n || s.Add(names...) != 0 || s.Err() != nil {
		t.Errorf("%d members, %v", s.Len(), s.Err())
	}
	s = OpenSet(s.Body())
	slices.Reverse(names)
	if s.Remove(names[1:]...) != n-1 || s.Len() != 1 || written(s.Splices()) > 24 {
		t.Errorf("%d are left, %d bytes written", s.Len(), written(s.Splices()))
	}
}

func written(all []Splice) (n int) {
	for _, s := range all {
		n += len(s.Ins) + 8
	}
	return n
}

func TestCollectionsAreBounded(t *testing.T) {
	big := make([]byte, 300<<10)
	l := OpenList(nil)
	for range 4 {
		l.PushRight(big)
	}
	if !errors.Is(l.Err(), ErrTooLarge) || len(l.b) > MaxCollection {
		t.Errorf("%d bytes, %v", len(l.b), l.Err())
	}
	h := OpenHash(nil)
	h.Set([]byte("f"), make([]byte, MaxCollection))
	if !errors.Is(h.Err(), ErrTooLarge) {
		t.Error(h.Err())
	}
}

// No bytes make a collection panic or run on for ever.
func FuzzOpen(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 1, 'a', 1, 'b'}, []byte("a"))
	f.Add([]byte{255, 255, 255, 255, 255, 255}, []byte(""))
	f.Fuzz(func(_ *testing.T, body, word []byte) {
		for _, of := range []Type{String, SortedSet, Hash, List, Set} {
			if !valid(of, body) {
				continue
			}
			switch of {
			case String:
				StringText(nil, body)
				_, _ = StringInt(body)
			case SortedSet:
				z := OpenSortedSet(body)
				p := z.Find([][]byte{word}, 1)
				p[0].There, p[0].Score = true, 1
				z.Put(p)
				z.RemoveSpan(z.ByRank(0, 0))
			case Hash:
				OpenHash(body).Set(word, word)
			case List:
				l := OpenList(body)
				l.PopRight(min(1, l.Len()), func([]byte) {})
			case Set:
				OpenSet(body).Add(word)
			}
			if of != String {
				CollectionEncoding(of, body)
			}
		}
	})
}

// valid reports whether body is that of a value of the type.
func valid(t Type, body []byte) bool {
	if t == String {
		return len(body) > 0 && (body[0] == tagInt && len(body) <= 9 || body[0] == tagText || body[0] == tagRaw)
	}
	if t > Set || t == None || len(body) <= headSize {
		return false
	}
	if t == List && Packed(body) {
		dropped := int(binary.LittleEndian.Uint32(body) &^ packedBit)
		return len(body)%numberSize == headSize && dropped < len(body)/numberSize
	}
	e := edit{b: body}
	at := headSize
	for n := e.Len(); n > 0; n-- {
		texts := 1
		switch t {
		case SortedSet:
			at += scoreSize
		case Hash:
			texts = 2
		}
		for ; texts > 0; texts-- {
			if at >= len(body) {
				return false
			}
			size, k := binary.Uvarint(body[at:])
			if k <= 0 || size > uint64(len(body)-at-k) {
				return false
			}
			at += k + int(size)
		}
	}
	return at == len(body)
}
