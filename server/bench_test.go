package server

import (
	"bytes"
	"strings"
	"testing"

	"limitdb/limit"
)

// BenchmarkCommands is what a command costs from the bytes read to the bytes to
// write, 16 in a pipeline, on keys that are in the caches. RL.TAKEALL of three is
// to be compared with three times RL.TAKE.
func BenchmarkCommands(b *testing.B) {
	const most = "1000000000/s"
	texts := []string{
		"PING",
		"CL.THROTTLE user123 1000000000 1000000000 1",
		"RL.TAKE user123 GCRA " + most + " PARTIAL COST 3",
		"RL.RESERVE user123 GCRA " + most + " MAXWAIT 1s",
		"RL.TAKEALL 1 one GCRA " + most,
		"RL.TAKEALL 3 one two three GCRA " + most + " GCRA " + most + " GCRA " + most,
		"RL.TOP",
	}
	for _, a := range limit.Algorithms() {
		for _, more := range []string{"", " SEGMENTS 60"} {
			if _, err := limit.Parse(a.String() + " 1000/m" + more); err == nil {
				texts = append(texts, "RL.TAKE "+a.String()+" "+a.String()+" 1000/m"+more)
			}
		}
	}
	for _, text := range texts {
		b.Run(text, func(b *testing.B) {
			ts := newTestServer(b)
			c := ts.client()
			batch := bytes.Repeat(encode(strings.Fields(text)...), 16)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%16 == 0 {
					ts.clock.Advance(1e6)
					c.conn.out = c.conn.out[:0]
					c.s.Data(batch)
				}
			}
		})
	}
}
