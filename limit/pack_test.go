package limit

import (
	"testing"

	"pgregory.net/rapid"
)

// Any valid limit comes back as it was, and its bytes are few.
func TestPack(t *testing.T) {
	var zones Zones
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawAny(t, a)
		if rapid.Bool().Draw(t, "usual") {
			l = drawLimit(t, a)
		}
		if l.Validate() != nil {
			return
		}
		if l.Zone != nil {
			zone, err := zones.Find([]byte(l.Zone.String()))
			if err != nil {
				t.Fatal(err)
			}
			l.Zone = zone
		}
		b := Pack(nil, &l)
		var got Limit
		if err := Unpack(b, &zones, &got); err != nil || got != l || len(b) > 1+2+6*10+maxZoneName {
			t.Fatalf("%v is %x, and then %v, %v", l, b, got, err)
		}
		if n := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); l.Zone == nil && Unpack(b[:n], &zones, &got) == nil {
			t.Fatalf("%x is %v", b[:n], got)
		}
	})
	if b := Pack(nil, &Limit{Algorithm: GCRA, Max: 100, Burst: 100, Period: 60e9}); len(b) != 4 {
		t.Errorf("100/m takes %d bytes", len(b))
	}
}

// FuzzUnpack reads any bytes as a limit, or refuses them.
func FuzzUnpack(f *testing.F) {
	for _, s := range []string{"GCRA 100/m BURST 9", "FIXED 9 CALENDAR DAY TZ Europe/Berlin", "WARMUP 9/m WARM 7s COLD 5"} {
		l := mustParse(f, s)
		f.Add(Pack(nil, &l))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Limit
		if Unpack(b, new(Zones), &l) == nil && l.Validate() != nil {
			t.Fatalf("%x is %+v", b, l)
		}
	})
}
