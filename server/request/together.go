package request

import (
	"strconv"
	"strings"

	"limitdb/engine"
	"limitdb/internal/english"
	"limitdb/limit"
	"limitdb/resp"
)

// Together holds the limits and the decisions of an RL.TAKEALL, without its keys.
type Together struct {
	Limits    [engine.MaxAll]limit.Limit
	Costs     [engine.MaxAll]int64
	Decisions [engine.MaxAll]limit.Decision
}

// NumKeys parses the number of keys and checks that as many words follow.
func NumKeys(words [][]byte) (n int, text string) {
	many, ok := resp.ParseInt(words[0])
	switch {
	case !ok || many < 1 || many > engine.MaxAll:
		return 0, "ERR numkeys must be an integer from 1 to " + strconv.Itoa(engine.MaxAll) + ": " + resp.Quote(words[0])
	case many > int64(len(words)-1):
		return 0, "ERR numkeys is " + strconv.Itoa(int(many)) + ", but " + strconv.Itoa(len(words)-1) + " words follow"
	}
	return int(many), ""
}

// Parse parses n limits. Each extends from its algorithm's name to that of the next.
func (t *Together) Parse(zones *limit.Zones, n int, words [][]byte) (text string) {
	for i := range n {
		if len(words) == 0 {
			return "ERR " + english.Count(n, "key") + " and " + english.Count(i, "limit") + ": give as many limits as keys"
		}
		var a Args
		used, text := ParseLimit(zones, words, OwnCost, &a)
		words = words[used:]
		if text == "" && len(words) > 0 {
			if _, ok := limit.Lookup(words[0]); !ok {
				text = UnknownOption(words[0], &a, OwnCost)
			}
		}
		if text != "" {
			return "ERR limit " + strconv.Itoa(i+1) + " of " + strconv.Itoa(n) + ": " + strings.TrimPrefix(text, "ERR ")
		}
		t.Limits[i], t.Costs[i] = a.Limit, a.Cost
	}
	if len(words) > 0 {
		return "ERR " + english.Count(n, "key") + " and one more limit: give as many limits as keys: " + resp.Quote(words[0])
	}
	return ""
}
