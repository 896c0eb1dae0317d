package persistence

import (
	"testing"
	"testing/synctest"
	"time"

	"limitdb/internal/clock"
)

// The writer's timer may fire late, so a goroutine that makes a change wakes the writer when a write is due. In this
// test the bubble's time stands still, so no timer fires at all.
func TestOverdueChangesAreWritten(t *testing.T) {
	for name, policy := range map[string]Policy{"always": Always, "everysec": EverySec, "no": Never} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := clock.NewFake(startAt)
				r := run(t, t.TempDir(), Options{Policy: policy, Now: now.Now})
				for n := range 3 {
					before := r.Stats().BytesWritten
					r.set(n)
					now.Advance(writeDelay - 1)
					r.Kick()
					synctest.Wait()
					if r.Stats().BytesWritten != before {
						t.Error("written before it was due")
					}
					now.Advance(1)
					r.Kick()
					synctest.Wait()
					if r.Stats().BytesWritten == before {
						t.Error("not written when it was due")
					}
					commits := r.counters.commits.Load()
					r.Kick()
					synctest.Wait()
					if r.counters.commits.Load() != commits {
						t.Error("the writer runs though nothing is due")
					}
				}
				commits := r.counters.commits.Load()
				time.Sleep(10 * writeDelay)
				if r.counters.commits.Load() != commits {
					t.Error("the timer was not stopped")
				}
				r.close()
			})
		})
	}
}
