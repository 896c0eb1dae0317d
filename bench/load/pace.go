package load

import (
	"context"
	"fmt"
	"time"
)

// nap is what the pacer of an open loop sleeps with.
type nap interface {
	// until sleeps until t, or until the run ends: then it may return early.
	until(t time.Time) error
	close()
}

// pace gives every worker its turn when a pipeline of its is due, all of them from one
// goroutine, so that the process has one timer to wake up for. It does not wait for
// anyone: a worker that is still busy finds by itself what has become due meanwhile.
func (r *run) pace(ctx context.Context, workers []*worker) error {
	n, err := r.newNap(ctx)
	if err != nil {
		return fmt.Errorf("open loop: %w", err)
	}
	defer n.close()
	// Dealt out in turn, the pipelines of all connections are those of a single one.
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
			workers[k%uint64(len(workers))].turn.give()
		}
	}
	return nil
}

// turn tells a worker that something is due. One that was not taken yet is not given twice.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) give() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// goNap sleeps with one of Go's timers. They are late by up to a millisecond where nothing
// else wakes the process, since the runtime waits in whole milliseconds.
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
