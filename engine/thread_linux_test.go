package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time that this thread has had: beside other load, that
// is what can be compared. It means something to a goroutine that is locked to its thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(ts.Nano())
}
