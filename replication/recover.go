package replication

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/replication/peers"
)

// ErrNothing is returned by Recover for a directory without any state.
var ErrNothing = errors.New("replication: the directory has no state of a cluster")

// Recover makes the node of a directory the only member of a new cluster, with everything that the directory has. It is
// for a cluster that has lost the majority of its voters for good. What only the lost nodes had is gone. What this node
// has counts, whether it was accepted or not, also if it has lost the end of its log. Recover returns the report of Check
// from before the change.
//
// The cluster has a new id, so it refuses nodes of the old one.
func Recover(o Options, dir string) (*Report, error) {
	report, err := Check(CheckOptions{Dir: dir})
	switch {
	case err != nil:
		return nil, err
	case len(report.Problems) > report.short:
		return report, errors.New(report.Problems[0])
	}
	var self *Member
	for i := range report.Members {
		if report.Members[i].server == peers.ServerID(report.ID, report.Incarnation) {
			self = &report.Members[i]
		}
	}
	if self == nil {
		return report, ErrNothing
	}
	who, err := identify(dir, "")
	if err != nil {
		return report, err
	}
	if report.short > 0 {
		if err := forgetEnd(dir, who, report); err != nil {
			return report, err
		}
	}
	o.ID, o.server = who.ID, who.server()
	p, err := openParts(&o, Disk{Dir: dir}, who)
	if err != nil {
		return report, err
	}
	return report, errors.Join(recoverOn(o, p, who, raft.Server{ID: raft.ServerID(o.server), Address: raft.ServerAddress(self.Address)}), p.close())
}

func recoverOn(o Options, p parts, who *identity, self raft.Server) error {
	// The new id comes first, so that a half-recovered node is no longer part of the old cluster.
	who.Cluster, who.Began = draw(), true
	if err := who.store(); err != nil {
		return err
	}
	// What the note says is borne out by the log, which is empty afterwards. If it is empty already, nothing else removes the note.
	if err := forgetNote(disk.OS{}, filepath.Dir(p.note)); err != nil {
		return err
	}
	_, transport := raft.NewInmemTransport(self.Address)
	if err := raft.RecoverCluster(o.config(), newNode(o, p).replica, p.logs, p.stable, p.snapshots, transport, raft.Configuration{Servers: []raft.Server{self}}); err != nil {
		return fmt.Errorf("replication: %w", err)
	}
	return nil
}

// forgetEnd makes a log count as whole that has lost its end.
func forgetEnd(dir string, who *identity, report *Report) error {
	last, err := openLast(disk.OS{}, dir, who.Incarnation)
	if err != nil {
		return err
	}
	end := report.Last
	for _, s := range report.Snapshots {
		end = max(end, s.Index)
	}
	return last.cut(end+1, func() {})
}
