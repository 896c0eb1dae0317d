//go:build plants

package across

import (
	"testing"

	"limitdb/internal/plant"
)

func TestPlantedBugsAreCaught(t *testing.T) {
	const run = "TestNothingIsExceededOrLeft"
	plant.Check(t, []plant.Bug{
		{"late-take-not-given-back", "across.go", "(p.took == 0 || p.took == Granted || p.took == Unknown)", "(p.took == Granted || p.took == Unknown)", run},
		{"unknown-take-not-given-back", "across.go", "(p.took == 0 || p.took == Granted || p.took == Unknown)", "(p.took == 0 || p.took == Granted)", run},
		{"part-left-taken-after-a-denial", "across.go", "	if v.Outcome != Granted && !c.each {\n", "	if v.Outcome == Unknown && !c.each {\n", run},
		{"granted-before-all-have-answered", "across.go", "			waits = true\n", "", run},
		{"denial-of-a-look-not-confirmed", "across.go", "	case denies:\n		c.phase = confirming\n", "	case denies:\n		c.end(Verdict{Outcome: Denied})\n		return\n		c.phase = confirming\n", run},
		{"granted-given-back", "across.go", "	if v.Outcome != Granted && !c.each {\n", "	if !c.each {\n", run},
		{"grant-though-one-has-denied", "across.go", "		case Denied:\n			c.end(Verdict{Outcome: Denied})\n			return\n", "		case Denied:\n", run},
		{"taken-though-others-deny", "across.go", "func(p *Part) bool { return p.looked == Denied }", "func(*Part) bool { return true }", "TestSameAsOneGroup"},
		{"cancel-that-overtakes-its-take", "../../engine/hold.go", "	case !known:\n		if as == hold.Committed {\n			return ErrNoHold\n		}\n", "	case !known:\n		if as == hold.Committed {\n			return ErrNoHold\n		}\n		if !dry {\n			return nil\n		}\n", "./" + run},
		{"what-is-left-not-counted", "across.go", "		c.counts.Left.Add(1)\n", "", run},
	})
}
