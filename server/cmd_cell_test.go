package server

import (
	"testing"

	"limitdb/limit"
)

func TestCLThrottleReplies(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"CL.THROTTLE user123 15 30 60", "[0 16 15 -1 2]"},
		[2]string{"CL.THROTTLE user123 15 30 60", "[0 16 14 -1 4]"},
		[2]string{"cl.throttle user123 15 30 60 14", "[0 16 0 -1 32]"},
		[2]string{"CL.THROTTLE user123 15 30 60", "[1 16 0 2 32]"},
		[2]string{"+1ns", ""},
		[2]string{"CL.THROTTLE user123 15 30 60", "[1 16 0 2 32]"}, // rounded up, never 0
		[2]string{"+1999999998ns", ""},
		[2]string{"CL.THROTTLE user123 15 30 60", "[1 16 0 1 31]"},
		[2]string{"+1ns", ""},
		[2]string{"CL.THROTTLE user123 15 30 60", "[0 16 0 -1 32]"},
		[2]string{"CL.THROTTLE user123 15 30 60 -1", "[0 16 1 -1 30]"},   // gives back
		[2]string{"CL.THROTTLE user123 15 30 60 -100", "[0 16 16 -1 0]"}, // and stops at full
		[2]string{"EXISTS user123", "0"},
		[2]string{"CL.THROTTLE big 15 30 60 17", "[1 16 16 -1 0]"},
		[2]string{"CL.THROTTLE zero 15 30 60 0", "[0 16 16 -1 0]"},
		[2]string{"EXISTS zero big", "0"},
	)
}

func TestCLThrottleErrors(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	const store = "-Cell error: Store error: "
	c.steps(ts,
		[2]string{"CL.THROTTLE", store + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"},
		[2]string{"CL.THROTTLE a 1 2", store + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"},
		[2]string{"CL.THROTTLE a 1 2 3 4 5", store + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"},
		[2]string{"CL.THROTTLE a x 2 3", store + "Couldn't parse as integer: x"},
		[2]string{"CL.THROTTLE a 1 2.5 3", store + "Couldn't parse as integer: 2.5"},
		[2]string{"CL.THROTTLE a 1 2 9223372036854775808", store + "Couldn't parse as integer: 9223372036854775808"},
		[2]string{"CL.THROTTLE a 1 0 3", store + "Zero rates are not supported"},
		[2]string{"CL.THROTTLE a 1 2 0", store + "Zero rates are not supported"},
		[2]string{"CL.THROTTLE a +5 2 3", "[0 6 5 -1 2]"},
		[2]string{"CL.THROTTLE b -1 2 3", store + "max_burst must be 0 or more"},
		[2]string{"CL.THROTTLE b 9223372036854775807 1 1", store + limit.ErrOverflow.Error()},
		[2]string{"CL.THROTTLE b 1 1 1 -9223372036854775808", store + limit.ErrOverflow.Error()},
		[2]string{"EXISTS b", "0"},
	)
}
