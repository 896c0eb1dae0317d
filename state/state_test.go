package state

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// What each number means is on disk, and what it is called is on the wire. Whatever is not here is no kind.
func TestKinds(t *testing.T) {
	type is struct {
		name                          string
		ofLimit, timed, value, record bool // record: only records have it
		head                          int  // of states in such records
	}
	kinds := map[Kind]is{
		1: {"gcra", true, true, false, false, 0}, 2: {"token", true, true, false, false, 0}, 3: {"leaky", true, true, false, false, 0},
		4: {"queue", true, true, false, false, 0}, 5: {"warmup", true, true, false, false, 0}, 6: {"fixed", true, true, false, false, 0},
		7: {"sliding", true, true, false, false, 0}, 8: {"segmented", true, true, false, false, 0}, 9: {"log", true, true, false, false, 0}, 15: {"block", false, true, false, false, 0},
		16: {"lease", false, true, false, false, 0}, 18: {"holds", false, true, false, false, 12}, 17: {"none", false, true, false, true, 12}, 25: {"none", false, true, false, true, 13},
		64: {"string", false, true, true, false, 0}, 65: {"string", false, false, true, false, 0},
		66: {"string", false, true, true, false, 12}, 67: {"string", false, false, true, false, 4},
		96: {"zset", false, true, true, false, 12}, 97: {"zset", false, false, true, false, 4},
		98: {"hash", false, true, true, false, 12}, 99: {"hash", false, false, true, false, 4},
		100: {"list", false, true, true, false, 12}, 101: {"list", false, false, true, false, 4},
		102: {"set", false, true, true, false, 12}, 103: {"set", false, false, true, false, 4},
		104: {"list", false, true, true, false, 12}, 105: {"list", false, false, true, false, 4},
		128: {"none", false, false, false, true, 0}, 129: {"none", false, false, false, true, 0},
	}
	for n := range 256 {
		k := Kind(n)
		want, ok := kinds[k]
		if !ok {
			if k.Known() || k.Written() || k.OfLimit() || k.TypeName() != "none" || !strings.HasPrefix(k.String(), "Kind(") {
				t.Errorf("%d is taken for a kind: %v", n, k)
			}
			continue
		}
		of, timed, value := k.Value()
		got := is{k.TypeName(), k.OfLimit(), k.Timed(), value, k.Written() && !k.Known(), k.HeadSize()}
		if got != want || k.Known() && k.String() != strings.ToUpper(want.name) {
			t.Errorf("%d is %+v, %v, want %+v", n, got, k, want)
		}
		if value && (of.Lasting() != k|1 || timed != k.Timed()) {
			t.Errorf("%d is a value of %v, %t", n, of, timed)
		}
	}
}

// Buckets read each other's states, and nothing else does.
func TestSameFamily(t *testing.T) {
	for a := range 256 {
		for b := range 256 {
			bucket := 1 <= a && a <= 4 && 1 <= b && b <= 4
			if got, want := SameFamily(Kind(a), Kind(b)), bucket || a == b && Kind(a).Known(); got != want {
				t.Errorf("SameFamily(%d, %d) = %t", a, b, got)
			}
		}
	}
}

func TestExpires(t *testing.T) {
	const never, no = math.MaxInt64, math.MinInt64
	at := binary.LittleEndian.AppendUint64(nil, math.MaxUint64-4)
	for _, tt := range []struct {
		kind  Kind
		state []byte
		want  int64
	}{
		{GCRA, at, -5},
		{GCRA, append(at, 1), -5},
		{GCRA, nil, no},
		{GCRA, at[:7], no},
		{None, at, no},
		{255, at, no},
		{LEASE, at, -5},
		{STRING, at, -5},
		{STRING, at[:1], no},
		{STRING.Lasting(), at[:1], never},
		{STRING.Lasting(), nil, no},
		{Rules, at, no},
	} {
		if got := Expires(tt.kind, tt.state); got != tt.want {
			t.Errorf("Expires(%v, %x) = %d, want %d", tt.kind, tt.state, got, tt.want)
		}
	}
	if Prolong(at, 7); Expires(GCRA, at) != 7 {
		t.Errorf("prolonged to %d", Expires(GCRA, at))
	}
}
