package peers

import (
	"io"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// snapshotRate is how many bytes a second of snapshots a node sends to others, those of all its groups together, so that the
	// logs still get their share of the network and the disk.
	snapshotRate = 32 << 20
	// snapshotsAtOnce is how many snapshots are sent at the same time. Others wait before the time of their receivers begins.
	snapshotsAtOnce = 2
	// timeoutScale is how many bytes of a snapshot a receiver may take Timeout for, so a receiver at a fourth of
	// snapshotRate is in time, also while another snapshot is sent. With raft's default, the leader would wait 40 minutes for a receiver of 300 MB that has
	// stopped.
	timeoutScale = 16 << 20
	throttleRead = 256 << 10
)

// sending bounds what all groups of a node send of snapshots.
type sending struct {
	places chan struct{} // has one for each snapshot that is sent
	pace   chan struct{} // has one while a part of any of them takes its time
}

func newSending() sending {
	return sending{make(chan struct{}, snapshotsAtOnce), make(chan struct{}, 1)}
}

// InstallSnapshot sends a snapshot, beside those of other groups, at no more than snapshotRate.
func (w *Transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	s := &w.Layer.Port.sending
	if err := w.place(s, args.Term); err != nil {
		return err
	}
	defer func() { <-s.places }()
	w.Layer.expects(id, to)
	if w.Sends != nil {
		data = w.Sends(args.LastLogIndex, args.Size, data)
	}
	return w.NetworkTransport.InstallSnapshot(id, to, args, resp, &throttled{from: data, of: s})
}

// place waits until a snapshot may be sent. It returns an error if the node stops, or if it leads no more in the snapshot's term: who
// gets a snapshot of an old leader reads all of it in vain, and does nothing else meanwhile.
func (w *Transport) place(s *sending, term uint64) error {
	select {
	case s.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.places <- struct{}{}:
	case <-w.Stop:
		return raft.ErrTransportShutdown
	}
	if w.Leads != nil && !w.Leads(term) {
		<-s.places
		return raft.ErrLeadershipLost
	}
	return nil
}

// throttled reads a snapshot at the pace of all that are sent.
type throttled struct {
	from io.Reader
	of   *sending
}

// Read reads at most 256 kB, and first sleeps for the time that they may take.
func (t *throttled) Read(b []byte) (int, error) {
	b = b[:min(len(b), throttleRead)]
	t.of.pace <- struct{}{}
	time.Sleep(time.Duration(len(b)) * time.Second / snapshotRate)
	<-t.of.pace
	return t.from.Read(b)
}
