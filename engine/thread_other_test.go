//go:build !linux

package engine

import "time"

// threadTime is unknown here.
func threadTime() time.Duration { return 0 }
