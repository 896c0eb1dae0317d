package replication

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"limitdb/internal/journal"
)

// replayer builds a table from the newest snapshot and the log.
type replayer struct {
	table     Table
	logs      raft.LogStore
	snapshots *snapshotStore
	stop      <-chan struct{} // closed when the node stops
}

// load replaces the state of the table, and of m, by a snapshot.
func (r *replayer) load(m *machine, from io.Reader) error {
	if err := r.table.Clear(); err != nil {
		return err
	}
	f, fuzzy, err := readSnapshot(bufio.NewReaderSize(untilStopped{from, r.stop}, blockBytes), r.table)
	if err == nil {
		m.restore(f)
		m.fuzzy = fuzzy
	}
	return err
}

// untilStopped reads from another reader until the node stops, and then returns raft.ErrRaftShutdown.
type untilStopped struct {
	from io.Reader
	stop <-chan struct{}
}

func (u untilStopped) Read(b []byte) (int, error) {
	if stopped(u.stop) {
		return 0, raft.ErrRaftShutdown
	}
	return u.from.Read(b)
}

// loadNewest loads the newest snapshot, if there is one, and returns its index.
func (r *replayer) loadNewest(m *machine) (index uint64, err error) {
	all, err := r.snapshots.List()
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, r.table.Clear()
	}
	meta, from, err := r.snapshots.Open(all[0].ID)
	if err != nil {
		return 0, err
	}
	defer func() { _ = from.Close() }()
	return meta.Index, r.load(m, from)
}

// replay applies an entry again.
func (r *replayer) replay(m *machine, index uint64) error {
	var l raft.Log
	if err := r.logs.GetLog(index, &l); err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	if l.Type != raft.LogCommand {
		return nil
	}
	e, err := parseEntry(l.Data)
	if err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	did, err := m.apply(&e, l.Term)
	if err == nil && did.accepted {
		err = applyGroup(r.table, m, index, did.records)
	}
	return err
}

// errMissed is returned if the log changes a part of a state that does not exist.
var errMissed = errors.New("replication: the state that an entry changes is not there")

// applyGroup applies the records of an accepted group, whose last entry has the given index.
func applyGroup(t Table, m *machine, index uint64, records []byte) error {
	if err := applyRecords(t, m.clock, records, &m.room); err != nil || index <= m.fuzzy {
		return err
	}
	if key, missed := t.Missed(m.clock); missed {
		return fmt.Errorf("%w: that of the key %.200q", errMissed, key)
	}
	return nil
}

// applyMost is the most records that are applied at once.
const applyMost = 512

// applyRecords applies the records in b. They are parsed into room, which the next call may have.
func applyRecords(t Table, now int64, b []byte, room *[]journal.Record) (err error) {
	for len(b) > 0 && err == nil {
		all := (*room)[:0]
		for len(all) < applyMost && len(b) > 0 && err == nil {
			var r journal.Record
			r, b, err = journal.Parse(b)
			all = append(all, r)
		}
		if err == nil {
			err = t.Apply(now, all)
		}
		clear(all) // they point into b
		*room = all
	}
	return err
}
