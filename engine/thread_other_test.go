//go:build !linux

package engine

import "time"

// threadTime is not known here.
func threadTime() time.Duration { return 0 }
