package server

import (
	"strings"
	"testing"
)

func TestTop(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.TOP", "[]"},
		[2]string{"RL.TAKE api:a GCRA 1/m", "[0 1 0 -1 60000]"},
		[2]string{"RL.TOP", "[]"},
		[2]string{"RL.TAKE api:a GCRA 1/m", "[1 1 0 60000 60000]"},
		[2]string{"CL.THROTTLE api:a 0 1 60", "[1 1 0 60 60]"},
		[2]string{"RL.RESERVE web:b GCRA 1/m COST 3", "[0 1 0 -1 180000]"},
		[2]string{"RL.RESERVE web:b GCRA 1/m MAXWAIT 0", "[1 1 0 120000 180000]"},
		[2]string{"RL.TAKE plain GCRA 1/m COST 2 PARTIAL", "[0 1 0 -1 60000 1]"},
		[2]string{"RL.TAKE plain GCRA 1/m COST 2 PARTIAL", "[1 1 0 60000 60000 0]"},
		[2]string{"RL.TAKE plain GCRA 1/m", "[1 1 0 60000 60000]"},
		[2]string{"RL.TAKE plain GCRA 1/m", "[1 1 0 60000 60000]"},
		[2]string{"RL.PEEK api:a GCRA 1/m", "[1 1 0 60000 60000]"},
		[2]string{"RL.TAKEALL 2 api:a new GCRA 1/m GCRA 1/m", "[1 0 [1 1 0 60000 60000] [0 1 1 -1 0]]"},
		[2]string{"RL.TOP", `[["api:a" 3] ["plain" 3] ["web:b" 1]]`},
		[2]string{"rl.top by requests count 2", `[["api:a" 4] ["plain" 4]]`},
		[2]string{"RL.TOP COUNT 1 NS web BY REQUESTS", `[["web:b" 2]]`},
		[2]string{"RL.TOP NS nobody", "[]"},
		[2]string{"+1m", ""},
		[2]string{"RL.TOP", `[["api:a" 1] ["plain" 1]]`},
		[2]string{"HELLO 3", `["server" "redis" "version" "7.4.0" "proto" 3 "id" 1 "mode" "standalone" "role" "master" "modules" []]`},
		[2]string{"RL.TOP COUNT 1", `[["api:a" 1]]`},
		[2]string{"FLUSHALL", "OK"},
		[2]string{"RL.TOP BY REQUESTS", "[]"},
	)
	c.do("RL.TAKE", ":x", "GCRA", "0/m")
	c.do("RL.TAKE", "y", "GCRA", "0/m")
	c.do("RL.TAKE", "z:y", "GCRA", "0/m")
	if got := line(c.do("RL.TOP", "NS", "")); got != `[[":x" 1] ["y" 1]]` {
		t.Errorf("without a namespace: %s", got)
	}
	if got := c.raw("RL.TOP COUNT 1\r\n"); got != "*1\r\n*2\r\n$2\r\n:x\r\n:1\r\n" {
		t.Errorf("%q", got)
	}
}

func TestTopErrors(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, test := range []struct{ in, want string }{
		{"RL.TOP 5", `ERR unknown option "5" for RL.TOP`},
		{"RL.TOP BY", "ERR syntax error: a value is missing after \"BY\""},
		{"RL.TOP BY KEYS", `ERR BY must be LIMITED or REQUESTS: "KEYS"`},
		{"RL.TOP BY LIMITED BY LIMITED", "ERR syntax error: BY is given twice"},
		{"RL.TOP COUNT 0", `ERR COUNT must be an integer from 1 to 1000: "0"`},
		{"RL.TOP COUNT 1001", `ERR COUNT must be an integer from 1 to 1000: "1001"`},
		{"RL.TOP COUNT x", `ERR COUNT must be an integer from 1 to 1000: "x"`},
		{"RL.TOP COUNT 1 NS", "ERR syntax error: a value is missing after \"NS\""},
	} {
		if got := line(c.do(strings.Fields(test.in)...)); got != "-"+test.want {
			t.Errorf("%s\n got %s\nwant -%s", test.in, got, test.want)
		}
	}
}
