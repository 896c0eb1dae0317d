package value

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// numberTexts draws texts that are numbers, mostly times, and seldom others.
func numberTexts(n int) *rapid.Generator[[][]byte] {
	one := rapid.Custom(func(t *rapid.T) []byte {
		switch rapid.IntRange(0, 60).Draw(t, "kind") {
		case 0:
			return []byte(rapid.SampledFrom([]string{"-0", "-3.5", "1e+20", "5e-324", "1.7976931348623157e+308", "0"}).Draw(t, "text"))
		case 1:
			return []byte(rapid.SampledFrom([]string{"1e20", "007", "0x10", "inf", "nan", "1.50", "", "x", "+1", "1_0"}).Draw(t, "text"))
		}
		x := 1_800_000_000 + float64(rapid.IntRange(0, 1<<30).Draw(t, "µs"))/1e6
		return strconv.AppendFloat(nil, x, 'g', 17, 64)
	})
	return rapid.SliceOfN(one, 1, n)
}

// TestNumbersAgainstModel compares long lists of numbers, which are packed, with a plain slice of texts.
func TestNumbersAgainstModel(t *testing.T) {
	packed := 0
	rapid.Check(t, func(t *rapid.T) {
		var body []byte
		var model []string
		for i := range rapid.IntRange(0, 900).Draw(t, "before") {
			model = append(model, string(appendNumber(nil, 1_700_000_000.5+float64(i))))
		}
		if len(model) > 0 {
			l := OpenList(nil)
			l.PushRight(texts(model)...)
			body = l.Body()
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			w := numberTexts(rapid.SampledFrom([]int{1, 1, 3, 600}).Draw(t, "most")).Draw(t, "texts")
			n := rapid.OneOf(rapid.IntRange(0, len(model)), rapid.IntRange(0, min(2, len(model)))).Draw(t, "n")
			i, j := rapid.Int64Range(-1200, 1200).Draw(t, "i"), rapid.Int64Range(-1200, 1200).Draw(t, "j")
			ops := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 3).Draw(t, "ops")
			body = step(t, List, body, OpenList, func(l *ListOf) {
				for _, op := range ops {
					n = min(n, len(model))
					switch op {
					case 0, 5:
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
						if rapid.Bool().Draw(t, "a little") {
							i, j = int64(n)%3, -1-int64(n)%4
						}
						l.Trim(i, j)
						model = slices.Clone(sliced(model, i, j))
					}
				}
			})
			sameList(t, OpenList(body), model, i, j)
			if Packed(body) {
				packed++
			}
		}
	})
	if packed < 10 {
		t.Errorf("only %d were packed", packed)
	}
}

func texts(all []string) (b [][]byte) {
	for _, text := range all {
		b = append(b, []byte(text))
	}
	return b
}

// sameList compares a list with a model of it.
func sameList(t *rapid.T, l *ListOf, model []string, i, j int64) {
	got := []string{}
	l.Range(i, j, nil, func(text []byte) { got = append(got, string(text)) })
	if !slices.Equal(got, sliced(model, i, j)) || l.Len() != len(model) {
		t.Fatalf("%.99q from %d to %d of %.99q", got, i, j, model)
	}
	numbers := []string{}
	if l.Numbers(i, j, func(x float64) { numbers = append(numbers, string(appendNumber(nil, x))) }) && !slices.Equal(numbers, got) {
		t.Fatalf("numbers %q, texts %q", numbers, got)
	}
	at := i
	if at < 0 {
		at += int64(len(model))
	}
	text, ok := l.Index(i)
	if in := at >= 0 && at < int64(len(model)); ok != in || in && string(text) != model[at] {
		t.Fatalf("index %d of %.99q: %q, %v", i, model, text, ok)
	}
}

// A long list of numbers has a million elements of some 8 bytes, and a change of a few has a few bytes.
func TestLongListsOfNumbers(t *testing.T) {
	var body []byte
	at := func(i int) []byte { return appendNumber(nil, 1_800_000_000+float64(i)/1024) }
	all := make([][]byte, 8000)
	for i := 0; i < MaxNumbers; i += len(all) {
		for k := range all {
			all[k] = at(i + k)
		}
		l := OpenList(body)
		l.PushLeft(all...)
		if l.Err() != nil {
			t.Fatal(i, l.Err())
		}
		body = Apply(l.Body(), l.Splices())
	}
	if n := OpenList(body).Len(); n != MaxNumbers || len(body) > MaxNumbers*8+64 {
		t.Errorf("%d elements in %d bytes", n, len(body))
	}
	l := OpenList(body)
	if l.PushLeft(at(0)); !errors.Is(l.Err(), ErrTooLarge) {
		t.Errorf("one too many: %v", l.Err())
	}
	for range 2 * MaxNumbers / dropShare / 1000 {
		l := OpenList(body)
		l.Trim(0, MaxNumbers-1001)
		l.PushLeft(all[:1000]...)
		if l.Len() != MaxNumbers || l.Err() != nil || !l.Late() || written(l.Splices()) > 8*1000+3*8+headSize {
			t.Fatalf("%d elements, %v, %d bytes", l.Len(), l.Err(), written(l.Splices()))
		}
		body = Apply(body, l.Splices())
		if most := MaxNumbers * (8 + 8.0/dropShare); float64(len(body)) > most+8*1000+64 {
			t.Fatalf("%d bytes", len(body))
		}
	}
	l = OpenList(body)
	if l.PushLeft([]byte("x")); !errors.Is(l.Err(), ErrTooLarge) {
		t.Errorf("a text in a list of a million numbers: %v", l.Err())
	}
}

// Lists of anything else keep the bound of all collections.
func TestOtherListsAreBounded(t *testing.T) {
	l := OpenList(nil)
	l.PushRight(bytes.Repeat([]byte("x"), 64), []byte("1"))
	for l.Err() == nil && l.Len() < MaxNumbers {
		l.PushLeft(slices.Repeat([][]byte{[]byte("1800000000.1234567")}, 5000)...)
	}
	if !errors.Is(l.Err(), ErrTooLarge) || l.Len() > MaxCollection/19 {
		t.Errorf("%d elements, %v", l.Len(), l.Err())
	}
	for _, x := range []float64{math.Inf(1), math.NaN()} {
		if _, ok := parseNumber(appendNumber(nil, x)); ok {
			t.Errorf("%v is an element of a list of numbers", x)
		}
	}
}
