package pulse

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A process that was stopped for long continues afterwards: the clock has advanced, but its disk does not hang.
func TestPauseIsNoHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 3 * time.Second
		var hangs atomic.Int32
		w := NewWatch(limit, func() { hangs.Add(1) })
		// Nothing of the process runs for an hour. Its timer, due thousands of times, fires once when it goes on.
		w.mu.Lock()
		w.timer.Stop()
		w.mu.Unlock()
		time.Sleep(time.Hour)
		w.look()
		synctest.Wait()
		if hangs.Load() != 0 {
			t.Error("a pause is taken for a disk that hangs")
		}
		time.Sleep(limit - 2*w.step)
		synctest.Wait()
		if hangs.Load() != 0 {
			t.Error("the pause counts as more than a step")
		}
		time.Sleep(time.Hour)
		if n := hangs.Load(); n != 1 {
			t.Errorf("a disk that hangs then is told of %d times", n)
		}
		w.Stop()
	})
}
