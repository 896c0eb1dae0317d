package replication

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func TestLogThatHangsIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		f := &failing{raft.NewInmemStore(), nil, make(chan struct{})}
		g := &guarded{elapsed: noTime, LogStore: f, fatal: func(err error) { ended <- err }}
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- g.StoreLog(&raft.Log{Index: 1}) }()
		if err := <-ended; !strings.Contains(err.Error(), "the disk hangs") || time.Since(began) != stallLimit {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(f.hold)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A process that was stopped for long continues afterwards: the clock has advanced, but its disk does not hang.
func TestPauseIsNoHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Int32
		w := watchStall(stallLimit, func() { hangs.Add(1) })
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
		time.Sleep(stallLimit - 2*w.step)
		synctest.Wait()
		if hangs.Load() != 0 {
			t.Error("the pause counts as more than a step")
		}
		time.Sleep(time.Hour)
		if n := hangs.Load(); n != 1 {
			t.Errorf("a disk that hangs then is told of %d times", n)
		}
		w.stop()
	})
}

// noTime is a monotonic time that stands still.
func noTime() int64 { return 0 }
