package script

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"limitdb/script/scripttest"
)

// Whatever hostile scripts do, the next script sees what the first one saw, and nothing that they have made is left. With
// LIMITDB_LONG=1 there are many more.
//
//test:norace
func TestHostileScripts(t *testing.T) {
	n := 1000
	if os.Getenv("LIMITDB_LONG") == "1" {
		n = 10_000
	}
	hostile := scripttest.NewHostile(1)
	vm := NewVM(1)
	h := &fakeHost{strings: map[string]string{}}
	before, state, weight := fingerprint(vm), vm.state, heap()
	ends, compiled := map[string]int{}, 0
	for i := range n {
		source := hostile.Script()
		s, err := Compile([]byte(source))
		if err != nil {
			continue
		}
		compiled++
		b, err := vm.Run(s, list([]string{"k"}), list([]string{"v"}), h, Bounds{Steps: 100_000, Memory: 4 << 20}, new(atomic.Bool), i%2 == 0, nil)
		switch {
		case err != nil:
			ends[err.Error()]++
		case strings.HasPrefix(string(b), "-ERR Error running script"):
			ends["panic"]++
		case b[0] == '-':
			ends["error"]++
		default:
			ends["reply"]++
		}
		clear(h.strings)
		h.logged = nil
		if vm.state != state { // it has begun with a new one
			before, state = fingerprint(vm), vm.state
		} else if diff := cmp.Diff(before, fingerprint(vm)); diff != "" {
			t.Fatalf("script %d has changed what others see:\n%s\n%s", i, source, diff)
		}
	}
	if got, fresh := strings.Join(names(vm), " "), strings.Join(names(NewVM(1)), " "); got != fresh {
		t.Errorf("a new state has\n%s, not\n%s", got, fresh)
	}
	if after := heap(); after > weight+2<<20 {
		t.Errorf("%d bytes are left", after-weight)
	}
	t.Logf("%d of %d compile: %v", compiled, n, ends)
	if compiled < n*3/4 || ends["reply"] < n/50 || ends["error"] < n/50 || ends[string(ErrMemory)] < n/50 || ends[string(ErrSteps)] < n/50 {
		t.Error("the scripts do not try all ends")
	}
}
