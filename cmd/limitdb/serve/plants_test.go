//go:build plants

package serve

import (
	"testing"

	"limitdb/internal/plant"
)

func TestPlantedBugsAreCaught(t *testing.T) {
	const gone, begins, secret = "TestRepliesOfAReplicaThatHasGone", "TestJoinBeforeTheDirectoryBegins", "TestSecretOfSeveralGroups"
	plant.Check(t, []plant.Bug{
		{"turns-of-each-replica", "replica.go", "= r, p.log, r.changed, &r.turns", "= r, p.log, r.changed, nil", gone},
		{"replies-of-a-gone-replica-sent", "replica.go", "return r.all != nil || r.node.Load() != nil", "return r.node.Load() != nil", gone},
		{"outcome-of-a-gone-replica-known", "replica.go", "fn(replication.ErrUnknown)", "fn(nil)", gone},
		{"directory-changed-before-it-begins", "directory.go", "if _, begins := r.(groups.Begin); !begins && !s.begun() {", "if false {", begins},
		{"node-added-before-the-directory-begins", "directory.go", "	case !s.begun():\n		return errNotBegun\n	}\n	_, h, err", "	}\n	_, h, err", begins},
		{"ready-before-the-directory-begins", "replica.go", "s.Begins = r.all != nil && r.number == 0 && !r.all.knows()", "s.Begins = false", begins},
		{"replicas-before-the-zone-is-known", "placing.go", "f.Silent[n.id] = true", "f.Silent[n.id] = false", "TestPlacementFollowsTheSettings"},
		{"moves-of-the-default", "placing.go", "int(s.p.set.RaftMoves.Get())", "groups.DefaultMoves", "TestPlacementFollowsTheSettings"},
		{"replicas-of-the-default", "placing.go", "Replicas: int(s.p.set.RaftReplicas.Get())", "Replicas: 3", "TestPlacementFollowsTheSettings"},
		{"leads-as-soon-as-it-has-caught-up", "reconciling.go", "now-since >= int64(readyAfter)", "now-since >= 0", "TestReadyToLead"},
		{"silent-node-stays-ready", "reconciling.go", "m.CaughtUp && !v.Silent[m.Node]", "m.CaughtUp", "TestReadyToLead"},
		{"leaders-change-at-once", "placing.go", "now-began < int64(turnTime)", "now-began < 0", "TestLeadersChangeOneByOne"},
		{"empty-groups-do-not-rest", "several.go", "	o.Idle = r.idle\n", "", "TestGroupsWithoutKeysRest"},
		{"budget-of-who-does-not-vote", "severalbudget.go", "g.Budget > 0 && voters[n.id]", "g.Budget > 0", "TestBudgetIsTheSmallestOfAllVoters"},
		{"budget-of-this-node-alone", "severalbudget.go", "of > 0 && (most == 0 || of < most)", "false", "TestBudgetIsTheSmallestOfAllVoters"},
		{"rules-not-noted", "keptnote.go", "		putRules(s.p, n.Rules)\n", "", "TestRulesAndUsersBeforeGroup0IsLed"},
		{"users-not-noted", "keptnote.go", "		putUsers(s.p, n.Users)\n", "", "TestRulesAndUsersBeforeGroup0IsLed"},
		{"replica-of-a-node-that-stops", "respondent.go", "	case s.closed:\n", "	case false:\n", "TestNoReplicaOfANodeThatStops"},
		{"replica-that-comes-back-deleted", "reconciling.go", "|| node.Says().Last != says.Last:", "|| false:", "TestReplicaThatComesBackIsKept"},
		{"hello-taken-for-what-a-node-has", "neighbours.go", "n.said, n.bare, n.heard = *state, bare,", "n.said, n.bare, n.heard = *state, bare && false,", "TestRemovalOfANodeThatDoesNotSayWhatItHas"},
		{"leader-of-a-group-that-has-moved-unknown", "neighbours.go", `id != "" || s.dir.stays(group)`, "true || s.dir.stays(group)", "TestLeaderOfAGroupThatHasMoved"},
		{"questions-pile-up", "neighbours.go", "if hurried && n.asked > 0 {", "if false {", "TestNeighbourThatHangs"},
		{"removed-node-comes-back", "directory.go", "	s.changes.Lock()\n	defer s.changes.Unlock()\n	if _, ok := s.current().Node(n.ID); !ok {", "	_, ok := s.current().Node(n.ID)\n	s.changes.Lock()\n	defer s.changes.Unlock()\n	if !ok {", "TestNodeThatIsRemovedWhileItTells"},
		{"removed-as-soon-as-it-is-silent", "directory.go", "if !long || !silent[id] {", "if _ = long; !silent[id] {", "TestRemovalOfANodeThatDoesNotSayWhatItHas"},
		{"groups-not-compared", "groupcount.go", "want > 1 && want != known.Groups", "false", "TestCountGroups"},
		{"secret-of-files-only", "rulesfile.go", "&& !p.member.ofSeveral()", "", "TestSecretWithoutFiles"},
		{"secret-of-each-node", "rulesfile.go", "src.SecretFollows = p.member.ofSeveral()", "", secret},
		{"secret-not-noted", "secret.go", "; p.member.ofSeveral() && (", "; false && (", secret},
		{"secret-before-it-is-accepted", "replica.go", "		r.p.keepSecret()\n", "		r.p.keepSecret()\n		r.p.rulesLoaded()\n", secret},
	})
}
