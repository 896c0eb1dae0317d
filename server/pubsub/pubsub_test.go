package pubsub

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// What is counted is what subscriptions take, compiled patterns included.
func TestSubscriptionsTakeWhatIsCounted(t *testing.T) {
	for _, form := range []string{"%06d", "p%06d*[a-z]*", "p%06d*" + strings.Repeat("x", 100)} {
		topics, counted := new(Topics), 0
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var all []*Subscriptions
		for client := range 4 {
			b := &Subscriptions{Topics: topics}
			for i := range 500 {
				b.Add(Pattern, fmt.Appendf(nil, form, client*500+i))
			}
			all = append(all, b)
			counted += b.Memory()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if took := int(after.HeapAlloc) - int(before.HeapAlloc); took > counted || took < counted/4 {
			t.Errorf("%q: %d bytes are counted, and %d taken", form, counted, took)
		}
		runtime.KeepAlive(all)
	}
}

// However many patterns there are and however long they are, the search for the receivers of one message takes a bounded number of steps,
// or the message is refused.
func TestSearchIsBounded(t *testing.T) {
	for _, form := range []string{"%d*", "%d*" + strings.Repeat("x", 57), "%d*" + strings.Repeat("?*", 440)} {
		topics := new(Topics)
		patterns := 0
		for client := range 18 {
			b := &Subscriptions{Topics: topics}
			for i := 0; i < MaxNames && b.Add(Pattern, fmt.Appendf(nil, form, client*MaxNames+i)); i++ {
				patterns++
			}
		}
		longest := topics.LongestChannel()
		if longest < shortChannel || longest > MaxBytes {
			t.Errorf("%.10s: a channel may have %d bytes", form, longest)
		}
		steps, find := 1, topics.Search(Channel, make([]byte, longest))
		for !find.Step() {
			steps++
		}
		if most := (searchMost+patterns*patternCost)/searchStep + 2; steps > most {
			t.Errorf("%.10s: %d patterns take %d steps for %d bytes, more than %d", form, patterns, steps, longest, most)
		}
	}
	topics := new(Topics)
	b := &Subscriptions{Topics: topics}
	for range 3 {
		b.Add(Pattern, []byte("a*"))
		b.Add(Pattern, []byte("b*"+strings.Repeat("x", 100)))
		b.Add(Channel, []byte("c"))
		if topics.words != 3 {
			t.Errorf("%d words", topics.words)
		}
		if b.Remove(Pattern, []byte("a*")); topics.words != 2 {
			t.Errorf("%d words", topics.words)
		}
		if b.Clear(); topics.words != 0 || topics.LongestChannel() != MaxBytes {
			t.Errorf("%d words, %d bytes", topics.words, topics.LongestChannel())
		}
	}
}
