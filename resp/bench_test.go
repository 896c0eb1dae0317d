package resp

import (
	"bytes"
	"testing"
)

func BenchmarkReader(b *testing.B) {
	throttle := command("CL.THROTTLE", "resi:000000123456", "100", "100", "3600")
	for _, bench := range []struct {
		name string
		n    int
	}{{"one", 1}, {"pipeline64", 64}} {
		b.Run(bench.name, func(b *testing.B) {
			in := bytes.Repeat(throttle, bench.n)
			r := &Reader{Limits: normal}
			b.ReportAllocs()
			commands := 0
			for b.Loop() {
				r.Feed(in)
				for {
					args, err := r.Next()
					if err != nil {
						b.Fatal(err)
					}
					if args == nil {
						break
					}
					commands++
				}
				r.Keep()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(commands), "ns/command")
		})
	}
	// Every read ends in the middle of a command, as when reads are shorter than a pipeline.
	b.Run("cut", func(b *testing.B) {
		in := bytes.Repeat(throttle, 64)
		r := &Reader{Limits: normal}
		b.ReportAllocs()
		commands := 0
		for b.Loop() {
			for _, part := range [][]byte{in[:100], in[100:2000], in[2000:4000], in[4000:]} {
				r.Feed(part)
				for {
					args, err := r.Next()
					if err != nil {
						b.Fatal(err)
					}
					if args == nil {
						break
					}
					commands++
				}
				r.Keep()
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(commands), "ns/command")
	})
}
