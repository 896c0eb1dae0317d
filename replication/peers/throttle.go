package peers

import (
	"io"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// snapshotRate is how many bytes a second of a snapshot a node sends to another, so that the log still gets its
	// share of the network and the disk.
	snapshotRate = 32 << 20
	// timeoutScale is how many bytes of a snapshot a receiver may take Timeout for, so a receiver at a fourth of
	// snapshotRate is in time. With raft's default, the leader would wait 40 minutes for a receiver of 300 MB that has
	// stopped.
	timeoutScale = 16 << 20
	throttleRead = 256 << 10
)

// InstallSnapshot sends a snapshot at no more than snapshotRate.
func (w *Transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	w.Layer.expects(id, to)
	if w.Sends != nil {
		data = w.Sends(args.LastLogIndex, args.Size, data)
	}
	return w.NetworkTransport.InstallSnapshot(id, to, args, resp, &throttled{from: data, rate: snapshotRate})
}

// throttled reads from another reader at no more than rate bytes a second.
type throttled struct {
	from io.Reader
	rate int
}

// Read reads at most 256 kB, and first sleeps for the time that they may take.
func (t *throttled) Read(b []byte) (int, error) {
	b = b[:min(len(b), throttleRead)]
	time.Sleep(time.Duration(len(b)) * time.Second / time.Duration(t.rate))
	return t.from.Read(b)
}
