package clock

import "testing"

func TestMark(t *testing.T) {
	m := Mark{Time: 1000, Boot: 7, Elapsed: 50}
	for i, c := range []struct {
		m       Mark
		boot    uint64
		elapsed int64
		want    int64 // 0 if it does not count
	}{
		{m, 7, 50, 1000},
		{m, 7, 80, 1030},
		{m, 7, 49, 0},
		{m, 8, 80, 0},
		{m, 0, 80, 0},
		{Mark{Time: 1000, Elapsed: 50}, 0, 80, 0},
		{Mark{Boot: 7}, 7, 80, 0},
	} {
		if now, ok := c.m.Now(c.boot, c.elapsed); now != c.want || ok != (c.want != 0) {
			t.Errorf("case %d: %d, %v, want %d", i, now, ok, c.want)
		}
	}
}

func TestSystemBoot(t *testing.T) {
	boot := SystemBoot()
	id, before := boot()
	if id == 0 {
		t.Fatal("this machine does not tell when it was started")
	}
	again, after := SystemBoot()()
	if again != id || after < before || before <= 0 {
		t.Errorf("%x at %d, then %x at %d", id, before, again, after)
	}
}
