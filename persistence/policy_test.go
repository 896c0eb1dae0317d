package persistence

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever waits is released when the policy changes, whatever the writer is doing
// at that moment, and not before what it waits for is durable.
func TestPolicyChangesStrandNobody(t *testing.T) {
	policies := []Policy{Always, EverySec, Never}
	for _, from := range policies {
		for _, to := range policies {
			for _, moment := range []string{"before the kick", "during the sync", "between two commits"} {
				t.Run(fmt.Sprintf("%d to %d %s", from, to, moment), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { changePolicy(t, from, to, moment) })
				})
			}
		}
	}
}

func changePolicy(t *testing.T, from, to Policy, moment string) {
	r := run(t, t.TempDir(), Options{Policy: from})
	var waiting, done atomic.Int64
	ask := func(n int) {
		r.set(n)
		if r.Wait(func() { done.Add(1) }) {
			waiting.Add(1)
		}
	}
	busy := make(chan struct{})
	switch moment {
	case "before the kick":
		ask(1)
		r.SetPolicy(to)
		r.Kick()
	case "during the sync":
		r.fs.busy = busy
		ask(1)
		r.Kick()
		time.Sleep(syncEvery) // the writer, or the one who syncs each second, is in a sync if there is one
		ask(2)
		r.Kick()
		if done.Load() != 0 {
			t.Error("released before the sync")
		}
		r.SetPolicy(to)
		ask(3)
		close(busy)
	case "between two commits":
		ask(1)
		r.commit()
		ask(2)
		r.SetPolicy(to)
		r.commit()
		ask(3)
	}
	r.Kick()
	synctest.Wait()
	if done.Load() != waiting.Load() {
		t.Errorf("%d of %d were released", done.Load(), waiting.Load())
	}
	if waiting.Load() == 0 && from == Always {
		t.Error("nobody waited")
	}
	r.close()
}
