package serve

import (
	"context"
	"time"
)

// every calls fn again and again, with pauses, until ctx ends.
func every(ctx context.Context, pause time.Duration, fn func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fn()
		}
	}
}
