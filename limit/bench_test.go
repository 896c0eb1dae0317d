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
	{"interval", "100/m INTERVAL"},
	{"windows", "100/m COUNTDENIED"},
	{"segments", "100/m SEGMENTS 60"},
	{"most-segments", "5000/m SEGMENTS 1024"},
	{"warm", "100/m WARM 10s COLD 2"},
	{"calendar", "100 CALENDAR day"},
	{"zone", "100 CALENDAR day TZ Europe/Berlin"},
}

func BenchmarkTake(b *testing.B) {
	for _, a := range Algorithms() {
		for _, bench := range benchLimits {
			l, err := parse(a.String() + " " + bench.text)
			if err != nil {
				continue
			}
			name := a.String() + "/" + bench.name
			b.Run(name+"/fresh", func(b *testing.B) { benchAllowed(b, l, span(l)) })
			b.Run(name+"/allowed", func(b *testing.B) { benchAllowed(b, l, 2*span(l)/l.Max) })
			b.Run(name+"/denied", func(b *testing.B) { benchDenied(b, l) })
		}
	}
}

// benchAllowed takes one each time, from a key that is little used.
func benchAllowed(b *testing.B, l Limit, each int64) {
	now := int64(1.7e18)
	state, _, err := take(&l, nil, now, 1, make([]byte, 0, MaxState))
	if err != nil {
		b.Fatal(err)
	}
	var d Decision
	b.ReportAllocs()
	for b.Loop() {
		if now += each; now > 1.8e18 { // three years: calendars of later years are computed each time
			now, state = 1.7e18, state[:0]
		}
		next, err := Take(&l, state, now, 1, state, &d)
		if err != nil || d.Limited {
			b.Fatal(d, err)
		}
		state = next
	}
}

// benchDenied asks a key that is used up for one more.
func benchDenied(b *testing.B, l Limit) {
	now := int64(1.7e18)
	full, err := peek(&l, nil, now, 0)
	if err != nil {
		b.Fatal(err)
	}
	state, _, err := take(&l, nil, now, full.Limit, nil)
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
