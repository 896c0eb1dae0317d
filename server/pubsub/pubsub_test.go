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
