package server

import "testing"

func TestCluster(t *testing.T) {
	ts := newTestServer(t)
	const alone = "-ERR This instance has cluster support disabled"
	ts.client().steps(ts,
		[2]string{"CLUSTER INFO", alone},
		[2]string{"CLUSTER SLOTS", alone},
		[2]string{"cluster shards", alone},
		[2]string{"CLUSTER KEYSLOT a", alone},
		[2]string{"CLUSTER", "-ERR wrong number of arguments for 'cluster' command"},
		[2]string{"READONLY", alone},
		[2]string{"READWRITE", alone},
		[2]string{"ASKING", alone},
		[2]string{"WAIT 0 0", "0"},
		[2]string{"WAIT 3 0", "0"},
		[2]string{"WAIT x 10", "-ERR value is not an integer or out of range"},
		[2]string{"WAIT 1 x", "-ERR timeout is not an integer or out of range"},
		[2]string{"WAIT 1 -1", "-ERR timeout is negative"},
		[2]string{"WAITAOF 0 0 0", "[0 0]"},
		[2]string{"WAITAOF 0 2 100", "[0 0]"},
		[2]string{"WAITAOF 1 0 0", "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."},
		[2]string{"WAITAOF 2 0 0", "-ERR value is out of range, value must between 0 and 1"},
		[2]string{"WAITAOF 0 -1 0", "-ERR value is out of range, must be positive"},
		[2]string{"WAITAOF 0 0 -1", "-ERR timeout is negative"},
		[2]string{"WAITAOF 0 x 0", "-ERR value is not an integer or out of range"},
		[2]string{"ROLE", `["master" 0 []]`},
	)
}
