package server

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"strings"
	"testing"

	"limitdb/internal/testlengths"
	"limitdb/resp"
)

// FuzzSession feeds any bytes, cut in two, to a session. No handler may panic, the
// output must be well-formed replies, the session must hold no more memory
// than the limits allow, and the log must give the same keys again.
func FuzzSession(f *testing.F) {
	f.Add([]byte("CL.THROTTLE user123 15 30 60\r\nRL.TAKE k GCRA 5/m COST 2\r\n"), uint16(7))
	f.Add([]byte("HELLO 3\r\nCOMMAND DOCS GET\r\nCLIENT LIST\r\nINFO all\r\nCONFIG GET *\r\nSLOWLOG GET\r\n"), uint16(20))
	f.Add(append(encode("RL.TAKE", "\x00\xff", "GCRA", "9223372036854775807", "1", "BURST", "2"), encode("SCAN", "0", "COUNT", "10")...), uint16(11))
	f.Add([]byte("CLIENT REPLY OFF\r\nPING\r\nSUBSCRIBE a b\r\nPING\r\nRESET\r\nMEMORY STATS\r\nLATENCY HISTOGRAM\r\n"), uint16(3))
	f.Add([]byte("*3\r\n$5\r\nDEBUG\r\n$5\r\nSLEEP\r\n$1\r\n0\r\nPING\r\n"), uint16(9))
	f.Add([]byte("RL.TAKE k GCRA 1/m\r\nRL.TAKE k GCRA 1/m WAIT 1s\r\nRL.LEASE l 1 1s ID a\r\nCLIENT UNBLOCK 1 ERROR\r\n"), uint16(30))
	f.Add([]byte("RL.LEASE l 1 1s ID a\r\nRL.HOLDERS l\r\nRL.RENEW l ID a 5s\r\nRL.RELEASE l ID a\r\nRL.LEASE l 1 1s ID b WEIGHT 2 WAIT 1s\r\n"), uint16(9))
	f.Add([]byte("RL.TAKEALL 2 a b GCRA 5/m COST 2 LOG 9/h\r\nRL.TOP BY REQUESTS NS a\r\nRL.RESERVE a GCRA 5/m MAXWAIT 1s\r\nCOMMAND GETKEYS RL.TAKEALL 2 a b\r\n"), uint16(60))
	f.Add([]byte("SET k v PX 5 GET\r\nWATCH k z\r\nMULTI\r\nZADD z NX CH 1 a 2 b\r\nZRANGE z 0 -1 WITHSCORES\r\nCOPY z k REPLACE\r\nPUBLISH c m\r\nEXEC\r\nOBJECT ENCODING z\r\n"), uint16(40))
	f.Add([]byte("INCREX c BYFLOAT 1e10 UBOUND 5 SATURATE EX 9 ENX\r\nHSET h f 1 g 2\r\nHINCRBYFLOAT h f 1e300\r\nLPUSH l a b\r\nLTRIM l -2 5\r\nSETRANGE k 60000 x\r\nRENAME l k\r\nSADD s 1 2\r\nEXPIRE s 9223372036854775 GT\r\n"), uint16(80))
	f.Add([]byte("EVAL \"return redis.pcall('ZADD', KEYS[1], unpack(ARGV))\" 1 z 1 a\r\nEVAL \"return redis.call('SCAN', 0)\" 0\r\nSCRIPT LOAD \"return 1\"\r\nEVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0\r\nMULTI\r\nEVAL \"return KEYS\" 1 a\r\nFLUSHALL\r\nEXEC\r\n"), uint16(70))
	for _, n := range testlengths.Read(f, longest) { // values that grow past each constant of the code
		var in []byte
		for less := range min(n, 16) {
			text := strings.Repeat("a", n-less)
			for _, w := range [][]string{{"SET", "k", text, "EX", "1000"}, {"APPEND", "k", "bbbbbbbbbb"}, {"PERSIST", "k"}, {"HSET", "h", "f", text}, {"EXPIRE", "h", "5"}, {"HSET", "h", "g", "bbbb"}} {
				in = append(in, encode(w...)...)
			}
		}
		f.Add(in, uint16(n))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16) {
		ts := newTestServer(t, "client-query-buffer-limit 1mb")
		c, log := ts.client(), ts.replayed()
		at := min(int(cut), len(in))
		out := c.raw(string(in[:at])) + c.raw(string(in[at:]))
		if n := ts.counters.panics.Load(); n != 0 {
			t.Fatalf("%d handlers panicked", n)
		}
		log.drain()
		want, _ := live(t, ts.engine, ts.clock.Now())
		if got, _ := live(t, log.again, ts.clock.Now()); !maps.Equal(got, want) {
			t.Fatalf("the log gives %.1000q, want %.1000q", got, want)
		}
		if c.s.pub.Monitor.Load() {
			return // lines of MONITOR come between replies, as in Redis
		}
		r := bufio.NewReader(bytes.NewReader([]byte(out)))
		for {
			if _, err := resp.ReadReply(r, 64<<20); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("a malformed reply: %v in %.200q", err, out)
			}
		}
		if held := c.s.rd.Memory(); held > 4<<20 {
			t.Fatalf("%d bytes held", held)
		}
		if strings.Contains(out, "internal error") {
			t.Fatal("internal error")
		}
	})
}
