package replication

import (
	"io"
	"time"

	"github.com/hashicorp/raft"
)

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
