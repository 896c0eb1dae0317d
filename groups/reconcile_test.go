package groups

import (
	"slices"
	"strings"
	"testing"
)

// view spells what a leader sees. A server is its node; then * for the leader; then - for one without a vote, + for one
// without a vote that has caught up; then ! if it is of an old incarnation, ~ if the node answers and has no directory,
// ? if it does not answer.
func view(spelled string) View {
	v := View{Index: 7, Confirmed: 3, MayTransfer: true, Silent: map[string]bool{}, Incarnations: map[string]string{}}
	for _, f := range fields(spelled) {
		id := strings.TrimRight(f, "*-+!~?")
		marks := f[len(id):]
		has := func(mark string) bool { return strings.Contains(marks, mark) }
		s := Server{Node: id, Incarnation: id + "1", Voter: !has("-") && !has("+")}
		s.CaughtUp = s.Voter || has("+")
		s.Ready = s.CaughtUp
		v.Incarnations[id] = id + "1"
		switch {
		case has("*"):
			v.Self = id
		case has("!"):
			v.Incarnations[id] = id + "2"
		case has("~"):
			delete(v.Incarnations, id)
		case has("?"):
			v.Silent[id] = true
		}
		v.Servers = append(v.Servers, s)
	}
	return v
}

func TestReconcile(t *testing.T) {
	for what, c := range map[string]struct {
		view, place string // the first node of the place leads
		learners    string
		ready       string // other nodes that have a directory
		silent      string // other nodes that do not answer
		want        string
	}{
		"there already":                      {"a* b c", "a b c", "", "", "", "wait"},
		"there, one is silent":               {"a* b c?", "a b c", "", "", "", "wait"},
		"a new node":                         {"a* b c", "a b d", "", "", "", "prepare d"},
		"a new node that is silent":          {"a* b c", "a b d", "", "", "d", "wait"},
		"prepared":                           {"a* b c", "a b d", "", "d", "", "add learner d d1"},
		"prepared, and silent":               {"a* b c", "a b d", "", "d", "d", "wait"},
		"learning":                           {"a* b c d-", "a b d", "", "", "", "wait"},
		"has caught up":                      {"a* b c d+", "a b d", "", "", "", "make voter d d1"},
		"has caught up, and does not answer": {"a* b c d+?", "a b d", "", "", "", "wait"},
		"has a vote":                         {"a* b c d", "a b d", "", "", "", "remove c c1"},
		"and the old one has not":            {"a* b d", "a b d", "", "", "", "report"},
		"it has come, and does not answer":   {"a* b d?", "a b d", "", "", "", "wait"},
		"it has come, and lost everything":   {"a* b d~", "a b d", "", "", "", "prepare d"},
		"it would be no majority":            {"a* b? c d", "a b d", "", "", "", "remove c c1"},
		"of four, two answer":                {"a* b? c d?", "a b d", "", "", "", "wait"},
		"the old one is dead":                {"a* b c?", "a b d", "", "", "", "prepare d"},
		"the old one is dead, the new votes": {"a* b c? d", "a b d", "", "", "", "remove c c1"},
		"the old one leads":                  {"a b c* d", "a b d", "", "", "", "transfer a a1"},
		"the old one leads, a is silent":     {"a? b c* d", "a b d", "", "", "", "transfer b b1"},
		"a learner that nobody wants":        {"a* b c x-", "a b d", "", "", "", "remove x x1"},
		"fewer replicas":                     {"a* b c", "a b", "", "", "", "remove c c1"},
		"fewer, one does not answer":         {"a* b? c", "a b", "", "", "", "wait"},
		"more replicas":                      {"a*", "a b c", "", "c", "", "prepare b"},
		"another target":                     {"a* b c d", "a b e", "", "", "", "remove c c1"},
		"two that nobody wants":              {"a* b c d?", "a b e", "", "", "", "remove d d1"},
		"an old incarnation":                 {"a* b c!", "a b c", "", "", "", "remove c c1"},
		"an old incarnation is gone":         {"a* b", "a b c", "", "c", "", "add learner c c1"},
		"an old incarnation that is needed":  {"a* b? c!", "a b c", "", "", "", "wait"},
		"an old incarnation does not count":  {"a* c d? x!", "a d e", "", "", "", "remove x x1"},
		"a learner of an old incarnation":    {"a* b c d+!", "a b d", "", "", "", "remove d d1"},
		"another should lead":                {"b* a c", "a b c", "", "", "", "transfer a a1"},
		"another should lead, and is silent": {"b* a? c", "a b c", "", "", "", "wait"},
		"group 0: a learner":                 {"a* b c", "a b c", "d", "", "", "prepare d"},
		"group 0: a learner that is ready":   {"a* b c", "a b c", "d", "d", "", "add learner d d1"},
		"group 0: a learner that is there":   {"a* b c d-", "a b c", "d", "", "", "wait"},
		"group 0: a learner has no vote":     {"a* b? c d-", "a b", "d", "", "", "wait"},
		"group 0: one loses its vote":        {"a* b c d", "a b d", "c", "", "", "demote c c1"},
		"group 0: one gets a vote":           {"a* b c d+", "a b d", "c", "", "", "make voter d d1"},
		"group 0: one has been removed":      {"a* b c d?", "a b c", "", "", "", "remove d d1"},
		"group 0: a vote before a learner":   {"a* b", "a b c", "d", "", "", "prepare c"},
	} {
		nodes := fields(c.place)
		place := Place{Version: 3, Nodes: slices.Sorted(slices.Values(nodes)), Leader: nodes[0]}
		if c.learners != "" {
			place.Leader = ""
		}
		v := view(c.view)
		for _, id := range nodes {
			if !slices.Contains(fields("a b c"), id) {
				place.Joining = append(place.Joining, id)
			}
		}
		for _, id := range fields(c.ready) {
			v.Incarnations[id] = id + "1"
		}
		for _, id := range fields(c.silent) {
			v.Silent[id] = true
		}
		got := Reconcile(place, fields(c.learners), v)
		if spelled := strings.TrimSpace(got.Action.String() + " " + got.Node + " " + got.Incarnation); spelled != c.want {
			t.Errorf("%s: %s, want %s", what, spelled, c.want)
		}
		if got.Version != 3 || got.Index != 7 {
			t.Errorf("%s: computed from place %d and configuration %d", what, got.Version, got.Index)
		}
		v.Pending = true
		if got := Reconcile(place, fields(c.learners), v); got.Action != Wait {
			t.Errorf("%s, while the configuration is not committed: %v", what, got.Action)
		}
		v.Pending, v.Confirmed = false, 2
		if got := Reconcile(place, fields(c.learners), v); got.Action != Confirm && c.want != "wait" || got.Node != "" {
			t.Errorf("%s, by a place that is not confirmed: %v", what, got)
		}
	}
}

func TestTurn(t *testing.T) {
	d := cluster(t, 3, "a b c", "a b c", "a b c", "b c a", "c a b", "a b c")
	leads := map[int]string{1: "b", 2: "b", 3: "a", 4: ""}
	for _, c := range []struct {
		after int
		ready string
		want  int
	}{{0, "a c", 1}, {1, "a c", 3}, {3, "a c", 1}, {0, "c", 3}, {3, "c", 3}, {0, "b", 0}} {
		got := Turn(d, func(g int) string { return leads[g] }, func(_ int, id string) bool { return slices.Contains(fields(c.ready), id) }, c.after)
		if got != c.want {
			t.Errorf("after %d with %s: %d, want %d", c.after, c.ready, got, c.want)
		}
	}
}

func TestDiscard(t *testing.T) {
	for _, c := range []struct {
		newest          uint64
		decides, member bool
		index           uint64
		want            bool
	}{
		{5, true, false, 6, true},
		{5, true, false, 5, true},
		{0, true, false, 1, true},
		{5, true, true, 6, false},   // it is a member
		{5, false, false, 6, false}, // the leader may have been deposed
		{5, true, false, 4, false},  // the leader does not know yet what the node knows
	} {
		if got := Discard(c.newest, c.decides, c.member, c.index); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
