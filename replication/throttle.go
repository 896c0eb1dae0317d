package replication

import (
	"io"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// snapshotRate is how many bytes a second of a snapshot a node sends to another, so that the log still gets its
	// share of the network and the disk.
	snapshotRate = 32 << 20
	// timeoutScale is how many bytes of a snapshot a receiver may take rpcTimeout for, so a receiver at a fourth of
	// snapshotRate is in time. With raft's default, the leader would wait 40 minutes for a receiver of 300 MB that has
	// stopped.
	timeoutScale = 16 << 20
	throttleRead = 256 << 10
)

// InstallSnapshot sends a snapshot at no more than snapshotRate.
func (w *wire) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	w.l.expects(id, to)
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

const (
	// restShare is how many times as long as a node works on a block of its table, it rests after it.
	restShare = 3
	// restMax is the longest rest between two blocks.
	restMax = 20 * time.Millisecond
)

// pace makes work on the whole table take a quarter of one processor and of the disk. A snapshot of 5 M keys would take
// 0.4 s without it, and what is decided meanwhile would wait for a processor.
type pace struct {
	elapsed func() int64
	began   int64 // when the work on the block began
}

// rest ends a block: it sleeps in proportion to the work.
func (p *pace) rest() {
	time.Sleep(min(time.Duration(restShare*(p.elapsed()-p.began)), restMax))
	p.began = p.elapsed()
}

// paced writes a snapshot, and rests after each block.
type paced struct {
	to   io.Writer
	stop <-chan struct{} // the node's
	pace
}

func newPaced(to io.Writer, stop <-chan struct{}, elapsed func() int64) *paced {
	return &paced{to, stop, pace{elapsed, elapsed()}}
}

// Write writes a block, and then rests. It returns raft.ErrRaftShutdown if the node stops.
func (p *paced) Write(b []byte) (int, error) {
	if stopped(p.stop) {
		return 0, raft.ErrRaftShutdown
	}
	n, err := p.to.Write(b)
	p.rest()
	return n, err
}
