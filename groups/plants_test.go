//go:build plants

package groups

import (
	"testing"

	"limitdb/internal/plant"
)

func TestPlantedBugsAreCaught(t *testing.T) {
	plant.Check(t, []plant.Bug{
		{"replica-removed-before-the-new-one-votes", "reconcile.go", "	if early && voters <= len(r.place.Nodes) {\n", "	if early && voters < len(r.place.Nodes) {\n", "TestClusters"},
		{"learner-counted-as-a-voter", "reconcile.go", "ok && s.Voter && !r.unknown(id) {", "ok && !r.unknown(id) {", "TestClusters"},
		{"learner-counted-in-a-majority", "reconcile.go", "		if !o.Voter || o == s {\n", "		if o == s {\n", "TestReconcile"},
		{"vote-before-the-log", "reconcile.go", "ok && !s.Voter && s.CaughtUp && r.live(s) {", "ok && !s.Voter && r.live(s) {", "TestClusters"},
		{"step-on-an-old-version-of-the-place", "reconcile.go", "v.Confirmed != place.Version {\n", "v.Confirmed == 0 {\n", "TestClusters"},
		{"old-incarnation-let-in", "reconcile.go", "	return s.Node == r.v.Self || !r.v.Silent[s.Node] && r.v.Incarnations[s.Node] == s.Incarnation\n", "	return s.Node == r.v.Self || !r.v.Silent[s.Node]\n", "TestReconcile"},
		{"old-incarnation-left-there", "reconcile.go", "	return (now == \"\" || now == s.Incarnation) && (r.place", "	return (now == \"\" || now != \"\") && (r.place", "TestClusters"},
		{"lost-directory-not-looked-for", "reconcile.go", "	return id != r.v.Self && !r.v.Silent[id] && r.v.Incarnations[id] == \"\"\n", "	_, ok := r.server(id)\n	return !ok && r.v.Incarnations[id] == \"\"\n", "TestClusters"},
		{"silent-node-taken-for-one-that-answers", "reconcile.go", "		if r.live(o) {\n", "		if o.Node != \"\" {\n", "TestReconcile"},
		{"completion-before-the-new-one-is-there", "reconcile.go", "		if s.Voter && slices.Contains(r.place.Joining, s.Node) && !r.live(s) {\n			return false\n		}\n", "", "TestReconcile"},
		{"leader-removes-itself", "reconcile.go", "	case s.Node == r.v.Self:\n		return r.handOver()\n", "", "TestReconcile"},
		{"uncommitted-configuration-changed", "reconcile.go", "	if r.v.Pending {\n", "	if false {\n", "TestReconcile"},
		{"directory-deleted-on-a-deposed-leader's-word", "reconcile.go", "	return decides && !member", "	return !member", "TestDiscard"},
		{"needed-node-removed", "guard.go", "v != id && !f.Silent[v] {", "!f.Silent[v] {", "TestRemovable"},
		{"removed-node-counted", "guard.go", "member && v != id", "(member || v != \"\") && v != id", "TestRemovable"},
		{"stale-removal-applied", "apply.go", "	case r.Revision != d.Revision:\n		return ErrStale\n", "", "TestApply"},
		{"place-changed-from-an-old-one", "apply.go", "	if r.Version != old.Version+1 {\n", "	if r.Version <= old.Version {\n", "TestApply"},
		{"old-place-reported-complete", "apply.go", "	if r.Version != p.Version {\n", "	if r.Version > p.Version {\n", "TestApply"},
		{"removed-node-trusted-when-it-comes-back", "apply.go", "		if !p.Has(r.ID) {\n", "		if p.Has(r.ID) || true {\n", "TestApply"},
		{"copy-of-the-directory-changed", "apply.go", "	next.Nodes, next.Places = slices.Clone(d.Nodes), slices.Clone(d.Places)\n", "", "TestAnyChanges"},
		{"place-changed-while-a-replica-moves", "placement.go", "	case !place.Settled() && !(slices.Contains(place.Joining, c.out) && p.state(c.out) <= leaves):\n		return byMoves\n", "", "TestNextWhileReplicasMove"},
		{"too-many-replicas-of-a-node-on-the-move", "placement.go", "	case p.moving[c.in] >= p.f.Moves || p.state(c.out) != gone && p.moving[c.out] >= p.f.Moves:", "	case p.f.Moves == 0:", "TestNextWhileReplicasMove"},
		{"silent-node-gets-something", "placement.go", "p.state(c.in) == silent || c.in", "c.in", "TestPlan"},
		{"silent-node-loses-its-place", "placement.go", "c.in != \"\" && p.state(c.out) == silent ||", "false ||", "TestPlan"},
		{"vote-in-group-0-not-last", "placement.go", "			if p.busy(id) {\n", "			if false {\n", "TestPlan"},
		{"zone-gets-too-much", "spread.go", "			room[z] = min(max(0, most-has[z]), free[z])\n", "			room[z] = free[z]\n", "TestPlanIsTheBest"},
		{"weights-ignored", "placement.go", "s.weight[i], s.zone[i] = int64(n.Weight), p.zones[n.Zone]", "s.weight[i], s.zone[i] = 100, p.zones[n.Zone]", "TestPlanIsTheBest"},
		{"moves-not-saved", "spread.go", "	for s.ways.cycle(s) {\n	}\n", "", "TestSpreadSavesAMove"},
	})
}
