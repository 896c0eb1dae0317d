package pulse

import "testing"

func TestAge(t *testing.T) {
	var a Age
	for i, c := range []struct {
		do   func()
		want int64
	}{
		{func() {}, 0},
		{func() { a.Begin(); a.End() }, 0},
		{func() { a.Add(10) }, 10},
		{func() { a.Add(20) }, 10},
		{a.Begin, 10},
		{func() { a.Add(30) }, 10},
		{a.End, 30},
		{a.Begin, 30},
		{func() { a.Add(40) }, 30},
		{a.Begin, 30}, // the round before has failed
		{a.End, 0},
		{func() { a.Add(50) }, 50},
		{a.Drop, 0},
	} {
		if c.do(); a.Since() != c.want {
			t.Errorf("step %d: since %d, want %d", i, a.Since(), c.want)
		}
	}
}
