package limit

import "testing"

// The limits of the benchmarks: the interval is divided out in the first, and
// given in the second.
var benchLimits = []struct {
	name string
	text string
}{
	{"rate", "100/m BURST 20"},
	{"cell", "1/2s BURST 16"},
}

func BenchmarkTake(b *testing.B) {
	for _, a := range Algorithms() {
		for _, bench := range benchLimits {
			l := mustParse(b, a.String()+" "+bench.text)
			b.Run(a.String()+"/"+bench.name+"/allowed", func(b *testing.B) {
				now := int64(1.7e18)
				state := make([]byte, 0, MaxState)
				var d Decision
				b.ReportAllocs()
				for b.Loop() {
					now += l.Period
					next, err := Take(&l, state, now, 1, state, &d)
					if err != nil || d.Limited {
						b.Fatal(d, err)
					}
					state = next
				}
			})
			b.Run(a.String()+"/"+bench.name+"/denied", func(b *testing.B) {
				now := int64(1.7e18)
				state, _, err := take(&l, nil, now, l.Burst, nil)
				if err != nil {
					b.Fatal(err)
				}
				var scratch [MaxState]byte
				var d Decision
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Take(&l, state, now, 1, scratch[:], &d); err != nil || !d.Limited {
						b.Fatal(d, err)
					}
				}
			})
		}
	}
}

func BenchmarkCell(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Cell(15, 30, 60); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCellDecimal(b *testing.B) {
	period := []byte("1.5e-3")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CellDecimal(15, 30, period); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParser(b *testing.B) {
	words := split("gcra 100/m burst 20")
	b.ReportAllocs()
	for b.Loop() {
		var p Parser
		n, err := p.Head(words)
		if err == nil {
			_, err = p.Option(words[n:])
		}
		if err == nil {
			_, err = p.Finish()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendText(b *testing.B) {
	l := mustParse(b, "GCRA 100/m BURST 20")
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		text, _ = l.AppendText(text[:0])
	}
}
