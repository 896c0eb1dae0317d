package persistence

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/internal/disk"
)

// A retired store saves nothing any more: nobody waits, and a later start drops what the directory has.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := run(t, dir, Options{Policy: Always})
		r.set(1)
		if err := r.Snapshot(); err != nil {
			t.Fatal(err)
		}
		busy := make(chan struct{})
		r.fs.busy = busy
		var released atomic.Bool
		r.set(2)
		r.Wait(func(error) { released.Store(true) })
		r.Kick()
		synctest.Wait()
		retired := make(chan error)
		go func() { retired <- r.Retire() }()
		synctest.Wait()
		if !released.Load() {
			t.Error("who waits is not released while the disk hangs")
		}
		r.set(3)
		if r.Wait(func(error) {}) {
			t.Error("a reply waits for a store that is retired")
		}
		if HasData(dir) {
			t.Error("what was kept counts")
		}
		close(busy)
		if err := <-retired; err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"Retire": r.Retire(), "Close": r.Close(), "Snapshot": r.Snapshot()} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s afterwards: %v", what, err)
			}
		}
		for i := range 2 {
			again := run(t, dir, Options{})
			if again.tab.len() != i || again.news.Clean != (i > 0) {
				t.Errorf("start %d: %d keys, %+v", i, again.tab.len(), again.news)
			}
			again.set(4)
			again.close()
		}
		names, err := disk.OS{}.List(dir)
		if err != nil || len(names) > 5 {
			t.Errorf("%v, %v", names, err)
		}
	})
}

// When the policy changes, every waiting reply is released, whatever the writer is doing at that moment, and not
// before its change is durable.
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
		if r.Wait(func(error) { done.Add(1) }) {
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
		time.Sleep(syncEvery) // the writer or tick is now in a sync, if there is one
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
