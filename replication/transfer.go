package replication

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// In a planned transfer, the node stops deciding, drains, waits until everything is accepted, and closes the epoch.
// Only then does Raft hand over the leadership. So every reply has an outcome, and the next leader begins with every
// change.
//
// If a transfer is interrupted at a bad moment, Raft is left with a leader that refuses every entry, for ever
// (hashicorp/raft #696). A watchdog ends such a node. Then the others elect a leader, and a supervisor starts the node
// again.

const (
	// succession bounds the wait for the next leader's epoch.
	succession = 5 * time.Second
	// stuckTransfer is how long Raft may refuse entries because of a transfer.
	stuckTransfer = 6 * time.Second
)

var errStuckTransfer = errors.New("replication: a transfer of the leadership was not finished, and Raft refuses all entries since")

// Transfer makes another member lead: the one with the id, or any that has caught up if the id is empty. It returns
// when that member decides. All replies that are due are sent first. Its errors are ErrNotLeader, ErrNoMember, ErrLeadsAlready
// for this node itself, ErrLags for a member that has not caught up or does not answer, and ErrNoSuccessor.
func (n *Node) Transfer(id string) error {
	n.transfer.Lock()
	defer n.transfer.Unlock()
	to, err := n.successor(id)
	if err != nil {
		return err
	}
	n.handing.Store(true)
	defer func() {
		n.handing.Store(false)
		signal(n.retry)
	}()
	if err := n.finish(); err != nil {
		n.replica.abdicateAny(errTransfer) // from an epoch that has begun meanwhile: its table is paused
		return err
	}
	n.replica.abdicateAny(errTransfer)
	if err := n.life.request(func() raft.Future {
		return n.raft.LeadershipTransferToServer(raft.ServerID(to.server), raft.ServerAddress(to.Address))
	}); err != nil {
		return fmt.Errorf("replication: the leadership was not transferred: %w", err)
	}
	return n.awaitSuccessor()
}

// Leave transfers the leadership if this node leads. It is for a node that is about to stop. It returns nil if no other
// member could lead.
func (n *Node) Leave() error {
	n.awaitVoters()
	n.replica.leaving.Store(true)
	err := n.Transfer("")
	if errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNoSuccessor) {
		return nil
	}
	return err
}

// takesOver notes that the node that leads has this one take over.
func (n *Node) takesOver() {
	n.replica.mu.Lock()
	defer n.replica.mu.Unlock()
	n.replica.handed = n.replica.machine.epoch
}

// awaitSuccessor waits until another node decides, as far as this one knows.
func (n *Node) awaitSuccessor() error {
	err := n.life.await(time.Millisecond, succession, func() bool { return n.Leader() != "" && n.Turn() == 0 })
	if errors.Is(err, errLate) {
		return fmt.Errorf("replication: no node has begun to decide within %v", succession)
	}
	return err
}

// refusals counts the attempts in a row to open an epoch that Raft has refused because of a transfer.
type refusals int

// stuck counts an attempt with its error, and reports whether Raft has refused entries for too long. It counts attempts, one each
// leadRetry, because time also passes while the process is stopped.
func (r *refusals) stuck(err error) bool {
	if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		*r = 0
		return false
	}
	*r++
	return time.Duration(*r)*leadRetry >= stuckTransfer
}
