package replication

import (
	"errors"
	"fmt"
	"slices"
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
	// finishRounds is the most groups that a transfer waits for before it closes the epoch.
	finishRounds = 100
	// succession bounds the wait for the next leader's epoch.
	succession = 5 * time.Second
	// stuckTransfer is how long Raft may refuse entries because of a transfer.
	stuckTransfer = 6 * time.Second
	// laggards is how long a node that leaves waits for voters that have not caught up.
	laggards = 2 * time.Second
)

var (
	errTransfer      = errors.New("the leadership is transferred")
	errStuckTransfer = errors.New("replication: a transfer of the leadership was not finished, and Raft refuses all entries since")
	// ErrNoSuccessor is returned if no other voter has caught up.
	ErrNoSuccessor = errors.New("replication: no other voter has caught up")
)

// Transfer makes another member lead: the one with the id, or any that has caught up if the id is empty. It returns
// when that member decides. All replies that are due are sent first. Its errors are ErrNotLeader, ErrNoMember, ErrLeads
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
	if err := n.finishEpoch(); err != nil {
		return err
	}
	if err := n.request(func() raft.Future {
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
	n.leaving.Store(true)
	err := n.Transfer("")
	if errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNoSuccessor) {
		return nil
	}
	return err
}

// awaitVoters waits until all voters that answer have caught up, but not for long. Without this node, the others may
// need each of them to commit anything.
func (n *Node) awaitVoters() {
	_ = n.await(catchUpLook, laggards, func() bool {
		all, err := n.leading()
		return err != nil || !slices.ContainsFunc(all, n.holdsUp)
	})
}

// successor returns the member to which the leadership may be transferred.
func (n *Node) successor(id string) (*Member, error) {
	all, err := n.leading()
	if err != nil {
		return nil, err
	}
	var best *Member
	for i := range all {
		m := &all[i]
		able := m.Voter && (n.parts.wire == nil || m.Client != "") && n.caughtUp(raft.ServerID(m.server))
		switch {
		case id != "" && m.ID != id:
		case m.Self && id != "":
			return nil, ErrLeads
		case m.Self:
		case able && (best == nil || m.Last > best.Last):
			best = m
		case id != "" && !able:
			return nil, ErrLags
		}
	}
	switch {
	case best != nil:
		return best, nil
	case id != "":
		return nil, ErrNoMember
	}
	return nil, ErrNoSuccessor
}

// finishEpoch stops decisions, waits until every decision is accepted, and closes the epoch.
func (n *Node) finishEpoch() error {
	turn := n.Turn()
	n.table.Pause()
	quiet := 0 // groups in a row behind which nothing was decided
	for range finishRounds {
		done := make(chan error, 1)
		n.Wait(turn, func(err error) { done <- err })
		n.Kick()
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("replication: the leadership was lost: %w", err)
			}
		case <-n.stop:
			return raft.ErrRaftShutdown
		}
		if quiet++; n.table.Dirty() || n.waited() {
			quiet = 0
		}
		if quiet == 2 {
			break
		}
	}
	n.abdicateAny(errTransfer)
	return nil
}

// awaitSuccessor waits until another node decides, as far as this one knows.
func (n *Node) awaitSuccessor() error {
	err := n.await(time.Millisecond, succession, func() bool { return n.Leader() != "" && n.Turn() == 0 })
	if errors.Is(err, errLate) {
		return fmt.Errorf("replication: no node has begun to decide within %v", succession)
	}
	return err
}

// errLate is returned by await.
var errLate = errors.New("replication: not in time")

// await calls done now and again until it returns true. It returns errLate after a time, and an error if the node stops.
func (n *Node) await(every, most time.Duration, done func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	late := time.NewTimer(most)
	defer late.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late.C:
			return errLate
		case <-n.stop:
			return raft.ErrRaftShutdown
		}
	}
	return nil
}

// watchTransfer ends the node if Raft has refused entries because of a transfer for too long. err is the error of an
// attempt to open an epoch. watchTransfer counts attempts, one each leadRetry, because time also passes while the
// process is stopped.
func (n *Node) watchTransfer(err error) {
	if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		n.refusing = 0
		return
	}
	if n.refusing++; time.Duration(n.refusing)*leadRetry >= stuckTransfer {
		n.mu.Lock()
		n.fail(errStuckTransfer)
		n.mu.Unlock()
	}
}
