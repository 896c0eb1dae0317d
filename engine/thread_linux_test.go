package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time of this thread, which can be compared
// even beside other load. The goroutine must be locked to its thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(ts.Nano())
}
