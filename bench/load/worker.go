package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// worker drives one connection.
type worker struct {
	run     *run
	index   int
	conn    net.Conn
	keys    picker
	shard   *shard
	replies replies
	in, out []byte
	wake    wake // the pacer of an open loop signals here
}

func newWorker(r *run, index int, conn net.Conn) *worker {
	keys := newPicker(&r.Config, index)
	if r.cluster != nil {
		keys = r.cluster.picker(keys, r.template, index)
	}
	return &worker{
		run: r, index: index, conn: conn,
		keys:  keys,
		shard: r.stats.shard(index),
		in:    make([]byte, writeBufferSize),
		wake:  newWake(),
	}
}

// work sends and receives until the run is over or ctx ends.
func (w *worker) work(ctx context.Context) error {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	// A deadline in the past wakes a waiting connection. It is set after the context that the loops check has
	// ended. If a loop wakes before that, it continues and is woken again.
	stop := context.AfterFunc(own, w.interrupt)
	defer stop()
	var err error
	if w.run.Rate > 0 {
		err = w.openLoop(own, cancel)
	} else {
		err = w.closedLoop(own)
	}
	switch {
	case err == nil, ctx.Err() != nil:
		return nil
	case errors.Is(err, io.EOF):
		err = errors.New("the server closed it")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("no reply for %v", w.run.Timeout)
	}
	return fmt.Errorf("connection %d: %w", w.index+1, err)
}

func (w *worker) interrupt() { _ = w.conn.SetDeadline(time.Unix(1, 0)) }

// deadline is one of the deadlines of a connection.
type deadline struct {
	set   func(time.Time) error
	moved time.Time
}

// extend moves the deadline on, but not at every call, since that would cost as much as a request.
func (w *worker) extend(ctx context.Context, d *deadline, now time.Time) error {
	if now.Sub(d.moved) < w.run.Timeout/8 {
		return nil
	}
	d.moved = now
	if err := d.set(now.Add(w.run.Timeout)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		w.interrupt() // this may have replaced the deadline that was set when ctx ended
	}
	return nil
}

// appendPipeline appends one pipeline of requests.
func (w *worker) appendPipeline(b []byte) []byte {
	for range w.run.Pipeline {
		b = w.run.template.appendTo(b, w.keys.next())
	}
	return b
}

// got is the result of one read.
type got struct {
	replies, errors, limited uint64
	at                       time.Time
}

func (w *worker) read() (got, error) {
	before := w.replies
	n, err := w.conn.Read(w.in)
	at := time.Now()
	if n == 0 && err != nil {
		return got{}, err
	}
	if err := w.replies.feed(w.in[:n]); err != nil {
		return got{}, err
	}
	return got{
		replies: w.replies.done - before.done,
		errors:  w.replies.errors - before.errors,
		limited: w.replies.limited - before.limited,
		at:      at,
	}, nil
}

var errTooMany = errors.New("more replies than requests")

// closedLoop sends a pipeline when the one before is answered.
func (w *worker) closedLoop(ctx context.Context) error {
	d := deadline{set: w.conn.SetDeadline}
	for {
		now := time.Now()
		measured := !now.Before(w.run.measureFrom)
		if !w.run.begin(now, measured) {
			return nil
		}
		if err := w.extend(ctx, &d, now); err != nil {
			return err
		}
		w.out = w.appendPipeline(w.out[:0])
		if _, err := w.conn.Write(w.out); err != nil {
			return err
		}
		for left := uint64(w.run.Pipeline); left > 0; {
			g, err := w.read()
			if err != nil {
				return err
			}
			if g.replies > left {
				return errTooMany
			}
			left -= g.replies
			if measured && g.replies > 0 {
				w.shard.record(g.at.Sub(now), g, w.replies.firstError)
			}
		}
	}
}

// begin reports whether a closed loop may begin another pipeline at now.
func (r *run) begin(now time.Time, measured bool) bool {
	if !r.stopAt.IsZero() && !now.Before(r.stopAt) {
		return false
	}
	if measured && r.Requests > 0 {
		p := uint64(r.Pipeline)
		return r.begun.Add(p)-p < r.Requests
	}
	return true
}

// openLoop sends pipelines when they are due, whether or not earlier ones are answered, and measures from
// then. So the latency includes the time that a request waits in this process, in the kernel or in the server
// because an earlier one is slow, as it would for a caller that does not know about the others.
//
// Writer and reader share only the count of sent requests: the n-th reply belongs to the n-th request, whose
// due time is computed. If either fails, it cancels ctx, so that the other does not wait forever.
func (w *worker) openLoop(ctx context.Context, cancel context.CancelFunc) error {
	s := &schedule{
		rate: w.run.Rate, pipeline: uint64(w.run.Pipeline),
		connections: uint64(w.run.Connections), index: uint64(w.index),
	}
	pipelines := s.count(&w.run.Config)
	var sent atomic.Uint64
	written := make(chan error, 1)
	go func() {
		err := w.writeDue(ctx, s, pipelines, &sent)
		if err != nil {
			cancel()
		}
		written <- err
	}()
	err := w.readDue(ctx, s, pipelines, &sent)
	if err != nil {
		cancel()
	}
	if werr := <-written; werr != nil && !errors.Is(werr, os.ErrDeadlineExceeded) {
		return werr
	}
	return err
}

// writeDue sends the pipelines when they are due. sent counts them.
func (w *worker) writeDue(ctx context.Context, s *schedule, pipelines uint64, sent *atomic.Uint64) error {
	d := deadline{set: w.conn.SetWriteDeadline}
	for k := uint64(0); k < pipelines; {
		now := time.Now()
		due := w.run.start.Add(s.due(k))
		waited := now.Before(due)
		for now.Before(due) {
			select {
			case <-w.wake:
			case <-ctx.Done():
				return nil
			}
			now = time.Now()
		}
		if waited && s.due(k) >= w.run.Warmup {
			w.shard.recordLag(now.Sub(due))
		}
		// A late pipeline does not delay those after it: send all that are due.
		w.out = w.out[:0]
		for k < pipelines && len(w.out) < writeBufferSize && w.run.start.Add(s.due(k)).Compare(now) <= 0 {
			w.out = w.appendPipeline(w.out)
			k++
		}
		if err := w.extend(ctx, &d, now); err != nil {
			return err
		}
		sent.Store(k)
		if _, err := w.conn.Write(w.out); err != nil {
			return err
		}
	}
	return nil
}

// readDue reads the replies to all pipelines.
func (w *worker) readDue(ctx context.Context, s *schedule, pipelines uint64, sent *atomic.Uint64) error {
	var received, silent uint64
	d := deadline{set: w.conn.SetReadDeadline}
	waiting := false // a whole timeout has passed, with requests unanswered
	for received < pipelines*s.pipeline {
		if err := w.extend(ctx, &d, time.Now()); err != nil {
			return err
		}
		g, err := w.read()
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil && !(waiting && silent == received) {
			// Perhaps nothing is due for a long time, or the last request is recent.
			waiting, silent = received < sent.Load()*s.pipeline, received
			d.moved = time.Time{}
			continue
		}
		if err != nil {
			return err
		}
		if received+g.replies > sent.Load()*s.pipeline {
			return errTooMany
		}
		for g.replies > 0 {
			due := s.due(received / s.pipeline)
			n := min(g.replies, s.pipeline-received%s.pipeline)
			if due >= w.run.Warmup {
				part := got{replies: n, errors: g.errors, limited: g.limited}
				w.shard.record(g.at.Sub(w.run.start)-due, part, w.replies.firstError)
			}
			// Which of the replies of one read were errors is unknown.
			g.errors, g.limited = 0, 0
			received += n
			g.replies -= n
		}
	}
	return nil
}
