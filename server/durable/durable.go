// Package durable is the server's side of what keeps its state: on disk, or on a majority of the nodes. It knows no session.
package durable

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"limitdb/internal/stats"
)

// Source is the server's interface to the code that keeps its state on disk. Any
// goroutine may call the functions. Those that block say so.
type Source struct {
	// Switch applies the current values of the directives appendonly and save. It blocks until
	// the whole state is durable, or the log has ended.
	Switch func() error
	// Turn identifies this node's current period of leadership. The server calls it before it
	// decides anything and passes the result to Wait. It is nil if there is only one node.
	Turn func() uint64
	// Wait arranges a call of fn once everything that can have been seen until now is durable.
	// fn receives an error if that can never be known. It must not block, and may be called
	// before Wait returns. Wait returns false if there is nothing to wait for; fn is then never
	// called. The sync begins at the next Kick.
	Wait func(turn uint64, fn func(err error)) bool
	// Holds reports whether Wait may return true. It is cheap.
	Holds func() bool
	// Kick begins the sync that callers of Wait are waiting for, if any. The transport calls it
	// after each round of its loops. The server calls it for connections that are in no loop.
	Kick func()
	// Sync makes everything until now durable, and blocks.
	Sync func() error
	// Snapshot writes a snapshot and blocks until it is durable. It returns ErrSnapshotting
	// while another is being written.
	Snapshot func() error
	// Backup makes a backup below the data directory and returns its path. It blocks.
	Backup func(name string) (path string, err error)
	// Stats returns the current figures.
	Stats func() stats.Durability
}

// ErrSnapshotting is what Source.Snapshot and Backup return while a snapshot is being written.
var ErrSnapshotting = errors.New("a snapshot is being written")

// Keeper is a Source, or none.
type Keeper struct {
	*Source // nil if nothing can be kept
	// Snapshotting says that BGSAVE writes a snapshot.
	Snapshotting atomic.Bool
	// AckLeader is raft-ack leader: replies do not wait for a majority.
	AckLeader atomic.Bool
	Syncs     Syncs // WAITAOF
}

// InTurns reports whether the server decides in turns: whether it is a node of a cluster.
func (k *Keeper) InTurns() bool { return k.Source != nil && k.Turn != nil }

// Leading returns the node's turn, before anything is decided, and false if it has none. It is 0 for a server that does not decide in
// turns.
func (k *Keeper) Leading() (turn uint64, leads bool) {
	if !k.InTurns() {
		return 0, true
	}
	turn = k.Turn()
	return turn, turn != 0
}

// Withholds reports whether replies wait until what they reveal is durable.
func (k *Keeper) Withholds() bool { return k.Source != nil && k.Holds() }

// Await blocks until everything seen so far in a turn is durable. known is false if that can never be known or, with
// ctx's error, if ctx ends first.
func (k *Keeper) Await(ctx context.Context, turn uint64) (known bool, err error) {
	if !k.Withholds() {
		return true, nil
	}
	over := make(chan error, 1)
	if !k.Wait(turn, func(err error) { over <- err }) {
		return true, nil
	}
	k.Kick()
	select {
	case lost := <-over:
		return lost == nil, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Figures returns the current figures.
func (k *Keeper) Figures() stats.Durability {
	if k.Source == nil {
		return stats.Durability{}
	}
	return k.Stats()
}

// Syncs lets many clients that wait for durability share syncs. One goroutine runs the syncs, one
// after the other, as long as a client waits. Clients that give up on a disk that hangs leave
// nothing behind, however many they are.
type Syncs struct {
	mu      sync.Mutex // guards all below
	running bool
	next    []chan error // receivers that wait for a sync that has not begun
}

// Join returns a channel that receives the error of a sync that begins after the call. A
// receiver that gives up calls Leave.
func (y *Syncs) Join(run func() error) chan error {
	done := make(chan error, 1)
	y.mu.Lock()
	defer y.mu.Unlock()
	y.next = append(y.next, done)
	if !y.running {
		y.running = true
		go y.work(run)
	}
	return done
}

// Leave forgets a receiver.
func (y *Syncs) Leave(done chan error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i, c := range y.next {
		if c == done {
			y.next = append(y.next[:i], y.next[i+1:]...)
			return
		}
	}
}

func (y *Syncs) work(run func() error) {
	for {
		y.mu.Lock()
		now := y.next
		y.next = nil
		if len(now) == 0 {
			y.running = false
			y.mu.Unlock()
			return
		}
		y.mu.Unlock()
		err := run()
		for _, c := range now {
			c <- err
		}
	}
}

// Waiting returns the number of receivers that wait for a sync that has not begun.
func (y *Syncs) Waiting() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.next)
}
