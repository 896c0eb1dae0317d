package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"limitdb/observe"
)

func TestState(t *testing.T) {
	b := newBoard()
	b.replies["RL.TOP"] = "*2\r\n*2\r\n$3\r\na\xffb\r\n:7\r\n*2\r\n$6\r\nuser:1\r\n:3\r\n"
	b.replies["RL.HISTORY SINCE 5"] = "%8\r\n$11\r\nholds_taken\r\n:7\r\n$6\r\nblocks\r\n:3\r\n$4\r\nnode\r\n$2\r\nn2\r\n$7\r\nallowed\r\n:110\r\n$7\r\nlimited\r\n:15\r\n$8\r\np99_nsec\r\n:2500\r\n" +
		"$7\r\nsamples\r\n*2\r\n*12\r\n:9\r\n:1000\r\n:50\r\n:5\r\n:20\r\n:3000\r\n:4000\r\n:5000\r\n:4\r\n:8\r\n:2\r\n:1\r\n*1\r\n:1\r\n$6\r\nchecks\r\n*1\r\n*4\r\n$4\r\nshop\r\n:8\r\n:3000\r\n:3980\r\n"
	b.replies["RL.RULES STATS"] = "*1\r\n%6\r\n$9\r\nnamespace\r\n$4\r\nshop\r\n$4\r\nname\r\n$1\r\nx\r\n$7\r\nlimited\r\n:3\r\n$14\r\nshadow_limited\r\n:2\r\n$6\r\nblocks\r\n:1\r\n$7\r\nblocked\r\n:2\r\n"
	c := b.serve(t)
	s := get[state](t, c, "state?since=5&over=")
	f := s.Figures
	if want := (sample{9, 1000, 50, 5, 20, 3, 4, 5, 4, 8, 2, 1}); f.Node != "n2" || f.Allowed != 110 || f.Limited != 15 || f.P99 != 2.5 || f.Holds != 7 || f.Blocks != 3 || len(f.Samples) != 1 || f.Samples[0] != want {
		t.Errorf("%+v", f)
	}
	if want := (checks{"shop", 8, 3, 3.98}); len(f.Checks) != 1 || f.Checks[0] != want {
		t.Errorf("%+v", f.Checks)
	}
	if len(s.Top) != 2 || s.Top[0].Text != `"a\xffb"` || s.Top[0].ID != "Yf9i" || s.Top[1].Text != "user:1" || s.Top[1].Count != 3 {
		t.Errorf("%+v", s.Top)
	}
	if len(s.Rules) != 1 || s.Rules[0].Name != "x" || s.Rules[0].Limited != 3 || s.Rules[0].Shadow != 2 || s.Rules[0].Blocks != 1 || s.Rules[0].Blocked != 2 {
		t.Errorf("%+v", s.Rules)
	}
	// They may be those of the last minutes, and are asked for only if the page wants them.
	b.replies["RL.RULES STATS OVER 1h"] = "*0\r\n"
	if s := get[state](t, c, "state?over=1h"); s.Rules == nil || len(s.Rules) != 0 {
		t.Errorf("%+v", s.Rules)
	}
	b.asked = nil
	if s := get[state](t, c, "state"); s.Rules != nil || slices.ContainsFunc(b.asked, func(a string) bool { return strings.HasPrefix(a, "RL.RULES") }) {
		t.Errorf("%+v", s.Rules)
	}
	// Minutes are asked for only if the page wants them, and only those that it has not.
	if s := get[state](t, c, "state"); s.Minutes != nil || slices.ContainsFunc(b.asked, func(a string) bool { return strings.Contains(a, "MINUTE") }) {
		t.Errorf("%+v, asked %q", s.Minutes, b.asked)
	}
	const row = "*12\r\n:%d\r\n:60000\r\n:50\r\n:5\r\n:20\r\n:3000\r\n:4000\r\n:5000\r\n:4\r\n:8\r\n:2\r\n:1\r\n"
	b.replies["RL.HISTORY SINCE 0 BY MINUTE"] = "%1\r\n$7\r\nsamples\r\n*2\r\n" + fmt.Sprintf(row, 60) + fmt.Sprintf(row, 120)
	b.replies["RL.HISTORY SINCE 60 BY MINUTE"] = "%1\r\n$7\r\nsamples\r\n*1\r\n" + fmt.Sprintf(row, 120)
	b.replies["RL.HISTORY SINCE 120 BY MINUTE"] = "-ERR there is no BY\r\n"
	one, two := sample{60, 60000, 50, 5, 20, 3, 4, 5, 4, 8, 2, 1}, sample{120, 60000, 50, 5, 20, 3, 4, 5, 4, 8, 2, 1}
	for since, want := range map[string]minutes{
		"0": {"", []sample{one, two}}, "-7": {"", []sample{one, two}}, "": {"", []sample{one, two}}, "x": {"", []sample{one, two}},
		"60": {"", []sample{two}}, "120": {"there is no BY", []sample{}},
	} {
		s := get[state](t, c, "state?since=5&minutes="+since)
		if m := s.Minutes; m == nil || m.Problem != want.Problem || !slices.Equal(m.Samples, want.Samples) || s.Figures.Problem != "" || len(s.Figures.Samples) != 1 {
			t.Errorf("minutes=%s: %+v, want %+v", since, m, want)
		}
	}
	// While nobody leads, the page says so, and shows the rest.
	b.Do = func(context.Context, ...[]byte) ([]byte, error) { return []byte("-CLUSTERDOWN no node leads\r\n"), nil }
	if s := get[state](t, c, "state"); s.Figures.Problem != "CLUSTERDOWN no node leads" || len(s.Top) != 0 {
		t.Errorf("%+v", s)
	}
	b.Do = func(ctx context.Context, _ ...[]byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
	if s := get[state](t, c, "state"); s.Figures.Problem != errLate.Error() {
		t.Errorf("%+v", s)
	}
}

// TestConcerns has each concern once, and none when all is well.
func TestConcerns(t *testing.T) {
	for _, test := range []struct {
		want  string // the beginning
		grave bool
		spoil func(s *observe.Snapshot, c *cluster, ready *error)
	}{
		{"", false, func(*observe.Snapshot, *cluster, *error) {}},
		{"No decisions are made here: loading.", true, func(_ *observe.Snapshot, _ *cluster, r *error) { *r = errors.New("loading") }},
		{"The log cannot be written", true, func(s *observe.Snapshot, _ *cluster, _ *error) { s.Refusing = true }},
		{"No node leads", true, func(_ *observe.Snapshot, c *cluster, _ *error) { c.On = true }},
		{"The certificate of x has expired.", true, func(s *observe.Snapshot, _ *cluster, _ *error) {
			s.Certificates = []observe.Certificate{{Directive: "x"}}
		}},
		{"The certificate of x expires in 3 days.", false, func(s *observe.Snapshot, _ *cluster, _ *error) {
			s.Certificates = []observe.Certificate{{Directive: "x", Left: 80 * time.Hour}, {Directive: "y", Left: 80 * 24 * time.Hour}}
		}},
		{"No node leads 2 of 3 groups", true, func(_ *observe.Snapshot, c *cluster, _ *error) {
			c.On, c.Leads, c.Groups = true, true, []keyGroup{{}, {Leader: "a"}, {}}
		}},
		{"No node leads group 0", false, func(_ *observe.Snapshot, c *cluster, _ *error) { c.On, c.Groups = true, []keyGroup{{Leader: "a"}} }},
		{"This node has still to apply 1001 entries.", false, func(_ *observe.Snapshot, c *cluster, _ *error) { c.Behind = 1001 }},
		{"The last snapshot failed", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.Durability.LastSnapshotFailed = true }},
		{"The last change of the rules had a mistake", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.RulesProblem = true }},
		{"The last reload of the configuration failed", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.Config.LastReloadOK = false }},
		{"91 of 100 clients are connected", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.Clients.Connected, s.Clients.Max = 91, 100 }},
		{"The clock of decisions is 1.5s off", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.ClockOffset = -1500 * time.Millisecond }},
	} {
		s, c, ready := observe.Snapshot{Config: observe.Config{LastReloadOK: true}}, cluster{}, error(nil)
		s.Clients.Max = 100
		test.spoil(&s, &c, &ready)
		got := concerns(&s, &c, ready)
		switch {
		case test.want == "" && len(got) > 0, test.want != "" && len(got) != 1:
			t.Errorf("%q: %+v", test.want, got)
		case len(got) == 1 && (!strings.HasPrefix(got[0].Text, test.want) || got[0].Grave != test.grave):
			t.Errorf("%+v, want %q", got[0], test.want)
		}
	}
}
