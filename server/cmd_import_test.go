package server

import (
	"testing"

	"limitdb/limit"
	"limitdb/server/request"
)

// An imported key has only a time. The next call converts it at its own rate, as redis-cell does.
func TestImportedLimiters(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.IMPORT k GCRA 10000000000", "1"},
		[2]string{"TYPE k", "gcra"},
		[2]string{"PTTL k", "10000"},
		[2]string{"CL.THROTTLE k 15 30 60 0", "[0 16 11 -1 10]"}, // 2 s for each of 5
		[2]string{"CL.THROTTLE k 15 60 60 0", "[0 16 6 -1 10]"},  // 1 s for each of 10
		[2]string{"CL.THROTTLE k 9 60 60", "[1 10 0 1 10]"},
		[2]string{"RL.IMPORT k GCRA 1", "0"}, // it exists
		[2]string{"+1s", ""},
		[2]string{"CL.THROTTLE k 9 60 60", "[0 10 0 -1 10]"},
		[2]string{"RL.IMPORT full gcra 0", "0"},
		[2]string{"EXISTS full", "0"},
		[2]string{"SET text a", "OK"},
		[2]string{"RL.IMPORT text GCRA 5", "0"},
		[2]string{"CL.THROTTLE text 9 60 60", "-" + request.WrongType(limit.STRING.Lasting(), limit.GCRA.Kind())},
		[2]string{"RL.IMPORT k TOKEN 5", `-ERR syntax error: GCRA is expected, not "TOKEN"`},
		[2]string{"RL.IMPORT k GCRA -1", "-ERR out of range: nanoseconds must be between 0 and 200 years"},
		[2]string{"RL.IMPORT k GCRA 6311520000000000001", "-ERR out of range: nanoseconds must be between 0 and 200 years"},
		[2]string{"MULTI", "OK"},
		[2]string{"RL.IMPORT m GCRA 5000000000", "QUEUED"},
		[2]string{"RL.TAKE m GCRA 1/s BURST 5", "QUEUED"},
		[2]string{"EXEC", "[1 [1 5 0 1000 5000]]"},
	)
}
