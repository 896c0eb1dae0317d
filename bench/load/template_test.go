package load

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// encode encodes a command in the obvious way.
func encode(words []string, key uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		w = strings.ReplaceAll(w, "{key}", fmt.Sprintf("%012d", key))
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

func TestTemplateAgainstTheObvious(t *testing.T) {
	word := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"{key}", "{", "key", "}", "{ke", "a", "\r\n", "0"}), 0, 6),
		func(parts []string) string { return strings.Join(parts, "") })
	rapid.Check(t, func(t *rapid.T) {
		words := append([]string{"CMD"}, rapid.SliceOfN(word, 0, 5).Draw(t, "words")...)
		key := rapid.Uint64Range(0, maxKeys-1).Draw(t, "key")
		tpl, err := newTemplate(words)
		if err != nil {
			t.Fatal(err)
		}
		// Twice, since nothing of the first key may remain.
		got := string(tpl.appendTo(tpl.appendTo([]byte("x"), maxKeys-1), key))
		if want := "x" + encode(words, maxKeys-1) + encode(words, key); got != want {
			t.Fatalf("%q\n%q", got, want)
		}
	})
}

func TestSendingAllocatesNothing(t *testing.T) {
	for _, d := range []Distribution{Uniform, Zipf, Sequential, Single} {
		c, err := Config{Distribution: d, Pipeline: 64}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		tpl, err := newTemplate(c.Command)
		if err != nil {
			t.Fatal(err)
		}
		w := worker{run: &run{Config: c, template: tpl}, keys: newPicker(&c, 0), out: make([]byte, 0, 64<<10)}
		in := []byte(strings.Repeat(granted, 64))
		if n := testing.AllocsPerRun(100, func() {
			w.out = w.appendPipeline(w.out[:0])
			if err := w.replies.feed(in); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations for 64 requests", d, n)
		}
	}
}

func BenchmarkPipeline(b *testing.B) {
	c, err := Config{Pipeline: 64}.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	tpl, err := newTemplate(c.Command)
	if err != nil {
		b.Fatal(err)
	}
	w := worker{run: &run{Config: c, template: tpl}, keys: newPicker(&c, 0)}
	in := []byte(strings.Repeat(granted, 64))
	b.ReportAllocs()
	for b.Loop() {
		w.out = w.appendPipeline(w.out[:0])
		if err := w.replies.feed(in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/request")
}
