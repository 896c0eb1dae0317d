package server

import (
	"fmt"
	"testing"

	"limitdb/engine"
	"limitdb/server/spec"
)

// A full server refuses new keys with an error, and still decides on the keys that it has.
func TestOutOfMemory(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("RL.TAKE", "first", "GCRA", "5/h")
	ts.engine.SetMaxMemory(1, engine.NoEviction)
	oom := ""
	for i := range 100_000 {
		if oom = line(c.do("CL.THROTTLE", fmt.Sprint("new:", i), "1", "1", "1000")); oom == "-"+spec.ErrOOM {
			break
		}
	}
	if oom != "-"+spec.ErrOOM {
		t.Fatalf("a new key in a full server: %s", oom)
	}
	c.steps(ts,
		[2]string{"RL.TAKE another GCRA 5/h", "-" + spec.ErrOOM},
		[2]string{"RL.TAKE first GCRA 5/h", "[0 5 3 -1 1440000]"},
		[2]string{"RL.PEEK nobody GCRA 5/h", "[0 5 4 -1 720000]"},
	)
	if got := ts.engine.Stats().Refused; got < 2 {
		t.Errorf("%d refusals counted", got)
	}
}
