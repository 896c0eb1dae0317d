package limit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// testZones are the zones of all tests, so that limits can be compared.
var testZones Zones

// parse is Parse with the tests' zones.
func parse(s string) (Limit, error) {
	p := Parser{Zones: &testZones}
	return p.Parse(s)
}

// mustParse returns the limit of a valid spelling.
func mustParse(tb testing.TB, s string) Limit {
	tb.Helper()
	l, err := parse(s)
	if err != nil {
		tb.Fatalf("Parse(%q): %v", s, err)
	}
	return l
}

// split makes the arguments of a command out of words.
func split(s string) [][]byte {
	return bytes.Fields([]byte(s))
}

// stateAt returns a bucket's state that says it is full at tat.
func stateAt(tat int64) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(tat))
}

// plain returns a limit without the options that only some algorithms have.
func plain(a Algorithm, most, period, burst int64) Limit {
	return Limit{Algorithm: a, Max: most, Period: period, Burst: burst}
}

// sample returns a valid limit of the algorithm, from which 10 can be taken at once.
func sample(tb testing.TB, a Algorithm) Limit {
	text := a.String() + " 10/s"
	switch a {
	case QUEUE:
		text += " BURST 9"
	case SEGMENTED:
		text += " SEGMENTS 4"
	}
	return mustParse(tb, text)
}

// take, peek, refund and reserve are Take, Peek, Refund and Reserve with the decision returned;
// after an error it is zero.
func take(l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, d Decision, err error) {
	next, err = Take(l, state, now, cost, dst, &d)
	return next, d, err
}

func peek(l *Limit, state []byte, now, cost int64) (d Decision, err error) {
	err = Peek(l, state, now, cost, &d)
	return d, err
}

func refund(l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, d Decision, err error) {
	next, err = Refund(l, state, now, cost, dst, &d)
	return next, d, err
}

func reserve(l *Limit, state []byte, now, cost, maxWait int64, dst []byte) (next []byte, d Decision, err error) {
	next, err = Reserve(l, state, now, cost, maxWait, dst, &d)
	return next, d, err
}

// refusal is a call of Take or Peek that has an error.
type refusal struct {
	name      string
	limit     Limit
	state     []byte
	now, cost int64
	want      error
}

// testRefused checks that calls have their errors, and decide and write nothing.
func testRefused(t *testing.T, tests []refusal) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dst := []byte("unharmed")
			next, d, err := take(&tt.limit, tt.state, tt.now, tt.cost, dst)
			if !errors.Is(err, tt.want) || next != nil || d != (Decision{}) || string(dst) != "unharmed" {
				t.Errorf("Take: %v, %+v, %v (dst %q), want %v", next, d, err, dst, tt.want)
			}
			if d, err := peek(&tt.limit, tt.state, tt.now, tt.cost); !errors.Is(err, tt.want) || d != (Decision{}) {
				t.Errorf("Peek: %+v, %v, want %v", d, err, tt.want)
			}
		})
	}
}
