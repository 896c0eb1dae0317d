package replication

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
	"limitdb/replication/peers"
)

// Report is what Check has found in a node's directory.
type Report struct {
	ID, Incarnation, Cluster string // Cluster is "" for a node that was never a member
	Term                     uint64
	First, Last              uint64 // entries of the log; 0 for an empty one
	Epochs, Batches, Records uint64 // in the log; entries that the fence ignores count as well
	Snapshots                []SnapshotReport
	Members                  []Member // as the newest configuration in the directory has them, which may not be committed
	// Epoch, Sequence and Clock are the fence at the log's end.
	Epoch, Leader string
	Sequence      uint64
	Clock         int64
	// Problems are the reasons for which a node cannot start from the directory. Each names its file. Ignored is what is
	// damaged, and does without.
	Problems, Ignored []string

	short int // how many problems are about the end of the log, which it has lost
}

// SnapshotReport is what Check has found in a snapshot.
type SnapshotReport struct {
	Name           string
	Index, Term    uint64
	Bytes, Records int64
}

// CheckOptions say what Check reads.
type CheckOptions struct {
	Dir string // the node's
	// Clock is this machine's, without Elapsed. Without Boot, the note of the time is not looked at.
	Clock Clock
	// Known reports whether this version can load states of a kind.
	Known func(kind byte) bool
	// Sound returns an error for a whole state of a kind that cannot be read; nil means that none is looked at.
	Sound func(kind byte, state []byte) error
}

// HasNode reports whether a directory is that of a node, also if the file is lost that says so. One that was being made
// when the process was killed is not.
func HasNode(dir string) bool {
	log, _ := os.ReadDir(filepath.Join(dir, logDir)) // empty if there is none
	snapshots, _ := os.ReadDir(filepath.Join(dir, snapshotsDir))
	return exists(filepath.Join(dir, nodeFile)) || len(log)+len(snapshots) > 0
}

// Check reads everything in a node's directory, and changes nothing. Damage is in the report. An error means that the
// directory could not be read, for example because a node runs on it.
func Check(o CheckOptions) (*Report, error) {
	c := &checker{o: o, r: &Report{}}
	who, err := identify(o.Dir, "")
	switch {
	case err != nil:
		c.problem(nodeFile, err)
	case who.fresh:
		c.problem(nodeFile, errors.New("it is missing"))
	default:
		c.r.ID, c.r.Incarnation, c.r.Cluster = who.ID, who.Incarnation, who.Cluster
	}
	snapshots := &snapshotStore{fs: disk.OS{}, dir: filepath.Join(o.Dir, snapshotsDir)}
	newest := c.snapshots(snapshots)
	if err != nil || who.fresh {
		return c.r, nil // the other files name the node
	}
	s, err := openStores(o.Dir, who, true, nil)
	if errors.Is(err, disk.ErrLocked) || errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	if err != nil {
		c.r.Problems = append(c.r.Problems, err.Error())
		return c.r, nil
	}
	c.r.Term = s.votes.term()
	if err := s.verify(snapshots); err != nil {
		c.problem("", err)
	}
	c.note(&s, snapshots)
	if err := c.log(s.log, newest); err != nil {
		c.problem(logDir, err)
	}
	c.r.Epoch, c.r.Leader, c.r.Sequence, c.r.Clock = c.m.epoch.String(), c.m.address, c.m.sequence, c.m.clock
	return c.r, s.close()
}

// checker is a check in progress.
type checker struct {
	o CheckOptions
	r *Report
	m machine
}

func (c *checker) problem(file string, err error) {
	if errors.Is(err, errShort) {
		c.r.short++
	}
	c.r.Problems = append(c.r.Problems, fmt.Sprintf("%s: %v", filepath.Join(c.o.Dir, file), err))
}

// note looks at the note of the time.
func (c *checker) note(s *stores, snapshots *snapshotStore) {
	if c.o.Clock.Boot == nil {
		return
	}
	switch was, _, err := readNote(filepath.Join(c.o.Dir, noteFile), c.o.Clock, s.log); {
	case errors.Is(err, disk.ErrDamaged):
		c.r.Ignored = append(c.r.Ignored, err.Error())
	case err != nil:
		c.problem(noteFile, err)
	case was != nil:
		if err := s.reaches(snapshots, was.Last); err != nil {
			c.problem(logDir, err)
		}
	}
}

// snapshots reads all snapshots, and returns the newest.
func (c *checker) snapshots(s *snapshotStore) *raft.SnapshotMeta {
	if !exists(s.dir) {
		return nil
	}
	all, damaged, err := s.list()
	if err != nil {
		c.problem(snapshotsDir, err)
		return nil
	}
	for _, name := range damaged {
		c.r.Ignored = append(c.r.Ignored, fmt.Sprintf("%s: %v; there is a newer one", filepath.Join(c.o.Dir, snapshotsDir, name, metaFile), errSnapshot))
	}
	for i, meta := range all {
		file := filepath.Join(snapshotsDir, meta.ID, stateFile)
		sr := SnapshotReport{Name: meta.ID, Index: meta.Index, Term: meta.Term, Bytes: meta.Size}
		m, err := c.snapshot(s, &sr)
		if err != nil {
			c.problem(file, err)
		}
		if i == 0 {
			c.m = m
		}
		c.r.Snapshots = append(c.r.Snapshots, sr)
	}
	if len(all) == 0 {
		return nil
	}
	c.members(all[0].Configuration)
	return all[0]
}

// snapshot reads a snapshot, counts its records, and returns the machine that continues from it.
func (c *checker) snapshot(s *snapshotStore, sr *SnapshotReport) (m machine, err error) {
	_, from, err := s.Open(sr.Name)
	if err != nil {
		return m, err
	}
	defer func() { _ = from.Close() }()
	t := &counting{known: c.o.Known, sound: c.o.Sound}
	f, _, err := readSnapshot(from, t)
	sr.Records = t.records
	if err == nil {
		m.restore(f)
	}
	return m, err
}

// log reads all entries of the log, and applies those behind the newest snapshot.
func (c *checker) log(log *diskLog, newest *raft.SnapshotMeta) error {
	var err error
	if c.r.First, err = log.FirstIndex(); err != nil {
		return err
	}
	if c.r.Last, err = log.LastIndex(); err != nil {
		return err
	}
	from := uint64(0)
	if newest != nil {
		from = newest.Index
	}
	t := &counting{known: c.o.Known, sound: c.o.Sound}
	var l, before raft.Log
	for i := max(c.r.First, 1); i <= c.r.Last; i++ {
		before, l = l, raft.Log{}
		if err := log.GetLog(i, &l); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		switch {
		case l.Index != i || l.Term < before.Term || l.Term > c.r.Term:
			return fmt.Errorf("entry %d says that it is %d of term %d, behind term %d; the node's is %d", i, l.Index, l.Term, before.Term, c.r.Term)
		case l.Type == raft.LogConfiguration:
			c.members(raft.DecodeConfiguration(l.Data))
		case l.Type == raft.LogCommand:
			if err := c.entry(&l, t, i > from); err != nil {
				return fmt.Errorf("entry %d: %w", i, err)
			}
		}
	}
	c.r.Records = uint64(t.records)
	return nil
}

// entry reads an entry, and applies it if it is behind the newest snapshot.
func (c *checker) entry(l *raft.Log, t *counting, apply bool) error {
	e, err := parseEntry(l.Data)
	if err != nil {
		return err
	}
	if e.kind == kindEpoch {
		c.r.Epochs++
	} else {
		c.r.Batches++
	}
	if err := applyRecords(t, 0, e.records, &c.m.room); err != nil || !apply {
		return err
	}
	_, err = c.m.apply(&e, l.Term)
	return err
}

func (c *checker) members(conf raft.Configuration) {
	c.r.Members = nil
	for _, s := range conf.Servers {
		c.r.Members = append(c.r.Members, Member{ID: peers.NameOf(string(s.ID)), Address: string(s.Address), Voter: s.Suffrage == raft.Voter, server: string(s.ID)})
	}
}

// counting is a table that only counts records.
type counting struct {
	Table
	known   func(kind byte) bool
	sound   func(kind byte, state []byte) error
	records int64
}

// Apply counts records. It returns ErrNewer for a state of an unknown kind, and an error for one that cannot be read.
func (t *counting) Apply(_ int64, records []journal.Record) error {
	for i := range records {
		if op := records[i].Op; (op == journal.Set || op == journal.Change) && t.known != nil && !t.known(records[i].Kind) {
			return fmt.Errorf("%w: a state of kind %d", ErrNewer, records[i].Kind)
		}
		if r := &records[i]; r.Op == journal.Set && t.sound != nil {
			if err := t.sound(r.Kind, r.State); err != nil {
				return fmt.Errorf("the state of key %q: %w", r.Key, err)
			}
		}
	}
	t.records += int64(len(records))
	return nil
}
