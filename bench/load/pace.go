package load

import (
	"context"
	"fmt"
	"time"
)

// nap is how the pacer of an open loop sleeps.
type nap interface {
	// until sleeps until t. It may return early if the run ends.
	until(t time.Time) error
	close()
}

// pace signals every worker when one of its pipelines is due. A single goroutine does so for all workers, so
// that only one timer wakes the process. It waits for nobody: a worker that is still busy will see by itself
// what has become due.
func (r *run) pace(ctx context.Context, workers []*worker) error {
	n, err := r.newNap(ctx)
	if err != nil {
		return fmt.Errorf("open loop: %w", err)
	}
	defer n.close()
	// The pipelines of all connections, dealt out in turn, are those of a single connection.
	all := &schedule{rate: r.Rate, pipeline: uint64(r.Pipeline), connections: 1}
	for k, end := uint64(0), all.count(&r.Config); k < end; {
		err := n.until(r.start.Add(all.due(k)))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("open loop: %w", err)
		}
		for now := time.Since(r.start); k < end && all.due(k) <= now; k++ {
			workers[k%uint64(len(workers))].wake.give()
		}
	}
	return nil
}

// wake signals to a worker that something is due. A second signal is dropped if the first was not received
// yet.
type wake chan struct{}

func newWake() wake { return make(wake, 1) }

func (c wake) give() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// goNap sleeps with a timer of Go. Such timers are up to a millisecond late if nothing else wakes the
// process, because the runtime waits in whole milliseconds.
type goNap struct {
	ctx   context.Context
	timer *time.Timer
}

func newGoNap(ctx context.Context) (nap, error) {
	return &goNap{ctx, time.NewTimer(0)}, nil
}

func (n *goNap) until(t time.Time) error {
	n.timer.Reset(time.Until(t))
	select {
	case <-n.timer.C:
	case <-n.ctx.Done():
	}
	return nil
}

func (n *goNap) close() { n.timer.Stop() }
