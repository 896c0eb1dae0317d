package replication

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// After an abdication, the table may have changes that are in no log. So the node rebuilds it from the
// newest snapshot and the log up to the applied index. Raft continues meanwhile, but the entries that it
// applies are only counted.

// errOvertaken ends a rebuilding when a snapshot is installed instead.
var errOvertaken = errors.New("overtaken by a snapshot")

// rebuildSoon starts to rebuild the table. The lock is held.
func (r *replica) rebuildSoon() {
	r.rebuilding = true
	r.rebuilds++
	if r.leaving.Load() {
		return
	}
	number := r.rebuilds
	r.life.start(func() {
		err := r.rebuild(number)
		if err != nil && !errors.Is(err, errOvertaken) {
			r.mu.Lock()
			r.fail(fmt.Errorf("the table cannot be built anew: %w", err))
			r.mu.Unlock()
		}
		r.told.rebuilt()
	})
}

// overhear notes who leads, from an entry that is only counted, and makes the node tell its clients. The
// lock is held.
func (r *replica) overhear(l *raft.Log) {
	if e, err := parseEntry(l.Data); err == nil && e.kind == kindEpoch {
		r.overheard = entry{epoch: e.epoch, address: e.address}
		r.told.changed()
	}
}

func (r *replica) rebuild(number uint64) error {
	r.building.Lock()
	defer r.building.Unlock()
	var m machine
	var from, at uint64
	for load := true; ; {
		r.mu.Lock()
		to := r.applied
		switch {
		case r.rebuilds != number:
			r.mu.Unlock()
			return errOvertaken
		case !load && at >= to:
			r.replace(m)
			r.mu.Unlock()
			return nil
		}
		r.mu.Unlock()
		if load {
			m = machine{}
			var err error
			if from, err = r.loadNewest(&m); err != nil {
				return err
			}
			at, load = from, false
			continue
		}
		var err error
		for ; at < to && err == nil; at++ {
			if stopped(r.stop) {
				return raft.ErrRaftShutdown
			}
			err = r.replay(&m, at+1)
		}
		// A snapshot that had begun before may be published meanwhile, and the log then begins behind it.
		newest, nerr := r.snapshots.newest()
		switch {
		case nerr == nil && newest != nil && newest.Index > from:
			load = true
		case err != nil || nerr != nil:
			return errors.Join(err, nerr)
		}
	}
}
