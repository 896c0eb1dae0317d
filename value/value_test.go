package value

import (
	"bytes"
	"cmp"
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
	replayed := before
	for _, s := range c.Splices() {
		var err error
		if replayed, err = s.Apply(nil, replayed); err != nil {
			t.Fatal(err)
		}
	}
	if open(replayed).Len() == 0 {
		replayed = nil
	}
	if !bytes.Equal(replayed, c.Body()) {
		t.Fatalf("the splices make %q of %q, not %q", replayed, before, c.Body())
	}
	if c.Len() > 0 && !Valid(of, c.Body()) {
		t.Fatalf("%q is not valid", c.Body())
	}
	return bytes.Clone(c.Body())
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
			w := words().Draw(t, "word")
			i, j := rapid.Int64Range(-9, 9).Draw(t, "i"), rapid.Int64Range(-9, 9).Draw(t, "j")
			op := rapid.IntRange(0, 4).Draw(t, "op")
			body = step(t, List, body, OpenList, func(l *ListOf) {
				switch op {
				case 0:
					l.PushLeft(w)
					model = slices.Insert(model, 0, string(w))
				case 1:
					l.PushRight(w)
					model = append(model, string(w))
				case 2, 3:
					pop, at := l.PopLeft, 0
					if op == 3 {
						pop, at = l.PopRight, len(model)-1
					}
					got, ok := pop()
					if ok != (len(model) > 0) || ok && string(got) != model[at] {
						t.Fatalf("popped %q, %v of %q", got, ok, model)
					}
					if ok {
						model = slices.Delete(model, at, at+1)
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
			f, v := words().Draw(t, "field"), words().Draw(t, "value")
			_, there := model[string(f)]
			body = step(t, Hash, body, OpenHash, func(h *HashOf) {
				if rapid.Bool().Draw(t, "set") {
					if h.Set(f, v) == there {
						t.Fatalf("%q is new: %v", f, !there)
					}
					model[string(f)] = string(v)
				} else {
					if h.Remove(f) != there {
						t.Fatalf("%q was there: %v", f, there)
					}
					delete(model, string(f))
				}
			})
			h, got := OpenHash(body), map[string]string{}
			h.Each(func(field, value []byte) { got[string(field)] = string(value) })
			if !maps.Equal(got, model) || h.Len() != len(model) {
				t.Fatalf("%q, not %q", got, model)
			}
			if text, ok := h.Get(f); string(text) != model[string(f)] || ok != h.Remove(f) {
				t.Fatalf("%q is %q, %v", f, text, ok)
			}
		}
	})
}

func TestSetAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var body []byte
		model := map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m := words().Draw(t, "member")
			body = step(t, Set, body, OpenSet, func(s *SetOf) {
				if rapid.Bool().Draw(t, "add") {
					if s.Add(m) == model[string(m)] {
						t.Fatalf("%q is not as new as in %v", m, model)
					}
					model[string(m)] = true
				} else {
					if s.Remove(m) != model[string(m)] {
						t.Fatalf("%q is not there as in %v", m, model)
					}
					delete(model, string(m))
				}
			})
			s, got := OpenSet(body), map[string]bool{}
			s.Each(func(member []byte) { got[string(member)] = true })
			if !maps.Equal(got, model) || s.Len() != len(model) || s.Has(m) != model[string(m)] {
				t.Fatalf("%v, not %v", got, model)
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
		find := func(m []byte) int {
			return slices.IndexFunc(model, func(p pair) bool { return p.member == string(m) })
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m, x := words().Draw(t, "member"), scores().Draw(t, "score")
			r := Scores{Min: scores().Draw(t, "min"), Max: scores().Draw(t, "max"), MinOpen: rapid.Bool().Draw(t, "("), MaxOpen: rapid.Bool().Draw(t, ")")}
			i, j := rapid.Int64Range(-9, 9).Draw(t, "i"), rapid.Int64Range(-9, 9).Draw(t, "j")
			in := func(p pair) bool { return !r.below(p.score) && !r.above(p.score) }
			at, op := find(m), rapid.IntRange(0, 5).Draw(t, "op")
			body = step(t, SortedSet, body, OpenSortedSet, func(z *SortedSetOf) {
				switch op {
				case 0, 1, 2:
					if z.Set(m, x) != (at < 0) {
						t.Fatalf("%q is new: %v", m, at < 0)
					}
					if at >= 0 {
						model = slices.Delete(model, at, at+1)
					}
					model = append(model, pair{string(m), x})
				case 3:
					if z.Remove(m) != (at >= 0) {
						t.Fatalf("%q was there: %v", m, at >= 0)
					}
					if at >= 0 {
						model = slices.Delete(model, at, at+1)
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
			if x, ok := z.Score(m); ok != (find(m) >= 0) || ok && x != model[find(m)].score {
				t.Fatalf("%q has %v, %v in %v", m, x, ok, model)
			}
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
		z.Set([]byte("request "+strconv.Itoa(i)), float64(i))
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
			if !Valid(of, body) {
				continue
			}
			switch of {
			case String:
				StringText(nil, body)
				_, _ = StringInt(body)
			case SortedSet:
				z := OpenSortedSet(body)
				z.Set(word, 1)
				z.RemoveSpan(z.ByRank(0, 0))
			case Hash:
				OpenHash(body).Set(word, word)
			case List:
				OpenList(body).PopRight()
			case Set:
				OpenSet(body).Add(word)
			}
			if of != String {
				CollectionEncoding(of, body)
			}
		}
	})
}
