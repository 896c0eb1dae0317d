package replication

import (
	"errors"
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
		g := &guarded{elapsed: noTime, LogStore: f, StableStore: f, fatal: func(err error) { ended <- err }}
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

// A follower gets entries, or a snapshot, of a later term than the message has: a leader that has just been deposed sends what it has got from its
// successor. The node knows itself when it starts again.
func TestEntriesOfALaterTermThanTheMessage(t *testing.T) {
	for name, store := range map[string]func(p parts) error{
		"entries": func(p parts) error {
			return p.logs.StoreLogs([]*raft.Log{{Index: 1, Term: 1}, {Index: 2, Term: 2}})
		},
		"a snapshot": func(p parts) error {
			return publish(p.snapshots, 2, 2, encodedSnapshot(t, &fence{}, nil))
		},
	} {
		dir := volatileDir(t)
		who, err := identify(dir, "a")
		if err != nil {
			t.Fatal(err)
		}
		o := realOptions(t, "a", nil)
		o.Fatal = func(err error) { t.Error(err) }
		p, err := openParts(&o, Disk{Dir: dir}, who)
		if err != nil {
			t.Fatal(err)
		}
		term := func(is uint64) error { return p.stable.SetUint64([]byte(termKey), is) }
		if err := errors.Join(term(1), store(p), term(1), p.close()); err != nil {
			t.Fatal(err)
		}
		if who, err = identify(dir, "a"); err == nil {
			p, err = openParts(&o, Disk{Dir: dir}, who)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := p.stores.votes.term(); got != 2 {
			t.Errorf("%s: the term is %d", name, got)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}
