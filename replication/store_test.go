package replication

import (
	"strings"
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

// noTime is a monotonic time that stands still.
func noTime() int64 { return 0 }
