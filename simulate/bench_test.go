package simulate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"limitdb/limit"
)

// benchTrace returns lines of 100 000 callers, a millisecond apart. Few callers send many requests.
func benchTrace(format Format, lines int) string {
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 10, 99_999)
	var b strings.Builder
	for i := range lines {
		caller := zipf.Uint64()
		ms := 1_700_000_000_000 + int64(i)
		addr := fmt.Sprintf("10.%d.%d.%d", caller>>16, caller>>8&255, caller&255)
		switch format {
		case CSV:
			fmt.Fprintf(&b, "%d.%03d,%s\n", ms/1000, ms%1000, addr)
		case JSON:
			fmt.Fprintf(&b, `{"time":%d,"level":"info","key":"%s","path":"/index.html","status":200}`+"\n", ms, addr)
		case AccessLog:
			fmt.Fprintf(&b, `%s - - [%s] "GET /index.html?q=%d HTTP/1.1" 200 5120 "https://example.com/" "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"`+"\n",
				addr, timeAt(ms*1e6).Format("02/Jan/2006:15:04:05 -0700"), i)
		}
	}
	return b.String()
}

// BenchmarkRun measures everything: read, parse, decide and count. One operation is 500 000 lines.
func BenchmarkRun(b *testing.B) {
	for _, format := range []Format{CSV, JSON, AccessLog} {
		const lines = 500_000
		text := benchTrace(format, lines)
		for _, limits := range []string{"gcra 100/m", "gcra 100/m|gcra 10/m|gcra 1/s|gcra 1000/h"} {
			b.Run(fmt.Sprintf("%s/limits=%d", format, 1+strings.Count(limits, "|")), func(b *testing.B) {
				var list []limit.Limit
				for text := range strings.SplitSeq(limits, "|") {
					l, err := limit.Parse(text)
					if err != nil {
						b.Fatal(err)
					}
					list = append(list, l)
				}
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					r, err := NewReplay(list)
					if err != nil {
						b.Fatal(err)
					}
					t, err := NewTrace(strings.NewReader(text), TraceOptions{})
					if err != nil {
						b.Fatal(err)
					}
					if err := Run(t, r, RunOptions{}); err != nil {
						b.Fatal(err)
					}
				}
				done := float64(b.N) * lines
				b.ReportMetric(done/b.Elapsed().Minutes()/1e6, "Mlines/min")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/done, "ns/line")
			})
		}
	}
}

// BenchmarkParse measures parsing alone.
func BenchmarkParse(b *testing.B) {
	for _, format := range []Format{CSV, JSON, AccessLog} {
		b.Run(format.String(), func(b *testing.B) {
			line, _, _ := strings.Cut(benchTrace(format, 1), "\n")
			t, err := NewTrace(strings.NewReader(line), TraceOptions{})
			if err != nil {
				b.Fatal(err)
			}
			text := []byte(line)
			var req Request
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				if err := t.parser.parse(text, &req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
