package server

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	// watchEvery is how often the runs of scripts are checked, and watchIdle after how many checks without a run the
	// checks rest until the next begins.
	watchEvery = 5 * time.Millisecond
	watchIdle  = 400
	// heapFactor is by how many times the memory of a script the heap may grow while it runs: by its own, by as much again
	// for its reply, and once more for what it stores.
	heapFactor = 3
)

// watchScripts ends scripts that take too long or too much memory.
func (srv *Server) watchScripts(ctx context.Context) {
	heap := heapOfProcess{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		srv.pulses.watch.Rest()
		select {
		case <-ctx.Done():
			return
		case <-srv.scripts.Begun():
		}
		tick := time.NewTicker(watchEvery)
		for idle := 0; idle < watchIdle && ctx.Err() == nil; idle++ {
			srv.pulses.watch.Rest()
			<-tick.C
			now := srv.clock.Now()
			srv.pulses.watch.Beat(now)
			srv.scripts.Expire(now - int64(srv.set.ScriptTimeLimit.Get()))
			if srv.scripts.Look(heap, heapFactor*uint64(srv.bounds.Memory)) {
				idle = 0
			}
		}
		tick.Stop()
	}
}

// heapOfProcess measures the heap of this process.
type heapOfProcess []metrics.Sample

// InUse implements scripts.Heap.
func (h heapOfProcess) InUse() uint64 {
	metrics.Read(h)
	return h[0].Value.Uint64()
}

// Collect implements scripts.Heap.
func (h heapOfProcess) Collect() { runtime.GC() }
