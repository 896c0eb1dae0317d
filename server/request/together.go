package request

import (
	"strconv"
	"strings"

	"limitdb/engine"
	"limitdb/internal/english"
	"limitdb/limit"
	"limitdb/resp"
)

// Together holds the limits and the decisions of an RL.TAKEALL, without its keys, and its ONCE.
type Together struct {
	Once      Args // of which only ONCE may be given
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
	words, text = t.limits(zones, n, words, nil)
	if text == "" && len(words) > 0 {
		text = tooMany(n, words[0])
	}
	return text
}

// tooMany returns the error for a word behind n limits.
func tooMany(n int, word []byte) string {
	return "ERR " + english.Count(n, "key") + " and one more limit: give as many limits as keys: " + resp.Quote(word)
}

// limits parses n limits, and returns the words behind the last: none, those of one more limit, or such as last accepts.
func (t *Together) limits(zones *limit.Zones, n int, words [][]byte, last func(word []byte) bool) (rest [][]byte, text string) {
	t.Once = Args{}
	for i := range n {
		if len(words) == 0 || i > 0 && last != nil && last(words[0]) {
			return nil, "ERR " + english.Count(n, "key") + " and " + english.Count(i, "limit") + ": give as many limits as keys"
		}
		var a Args
		allowed := OwnCost
		if i == n-1 && last == nil { // ONCE is for all of them, and comes behind
			allowed |= OwnOnce
		}
		used, text := ParseLimit(zones, words, allowed, &a)
		words = words[used:]
		if text == "" && len(words) > 0 && (last == nil || !last(words[0])) {
			if _, ok := limit.Lookup(words[0]); !ok {
				text = UnknownOption(words[0], &a, allowed)
			}
		}
		if text == "" && last != nil && a.Cost < 1 {
			text = errNoEstimate
		}
		t.Once.Given, t.Once.OnceID, t.Once.OnceFor = a.Given&OwnOnce, a.OnceID, a.OnceFor
		if text != "" {
			return nil, "ERR limit " + strconv.Itoa(i+1) + " of " + strconv.Itoa(n) + ": " + strings.TrimPrefix(text, "ERR ")
		}
		t.Limits[i], t.Costs[i] = a.Limit, a.Cost
	}
	return words, ""
}

// ParseHold is Parse for limits that are held under h, which is said behind the last. maxTTL is the longest time of a hold, in ns.
func (t *Together) ParseHold(zones *limit.Zones, n int, words [][]byte, maxTTL int64, h *engine.Hold) (text string) {
	words, text = t.limits(zones, n, words, isHoldOption)
	switch {
	case text != "":
		return text
	case len(words) > 0 && !isHoldOption(words[0]):
		return tooMany(n, words[0])
	}
	a := HoldArgs{}
	if text = Options(words, "RL.HOLDALL", a.set, "TTL", "ID", "ONEXPIRE"); text == "" {
		text = a.check("RL.HOLDALL", maxTTL)
	}
	*h = a.Hold
	return text
}

// ParseSettle parses the id of a hold on n keys, and what each has cost: COST, with one cost for all or one for each, in any
// order. A cost of -1 means the estimate.
func ParseSettle(words [][]byte, command string, costs []int64) (id []byte, text string) {
	for i := range costs {
		costs[i] = -1
	}
	given := 0
	for len(words) > 0 {
		name := words[0]
		switch words = words[1:]; {
		case resp.EqualFold(name, "ID") && id != nil, resp.EqualFold(name, "COST") && given > 0:
			return nil, "ERR syntax error: " + strings.ToUpper(string(name)) + " is given twice"
		case resp.EqualFold(name, "ID") && len(words) > 0:
			if text = CheckHoldID(words[0]); text != "" {
				return nil, text
			}
			id, words = words[0], words[1:]
		case resp.EqualFold(name, "COST") && len(words) > 0:
			if given, text = someCosts(words, costs); text != "" {
				return nil, text
			}
			words = words[given:]
		case resp.EqualFold(name, "ID"), resp.EqualFold(name, "COST"):
			return nil, noValue(strings.ToUpper(string(name)))
		default:
			return nil, "ERR unknown option " + resp.Quote(name) + " for " + command
		}
	}
	if id == nil {
		return nil, "ERR syntax error: " + command + " needs ID id"
	}
	return id, ""
}

// someCosts reads one cost for all, or one for each, from the start of words. It returns how many they are.
func someCosts(words [][]byte, costs []int64) (n int, text string) {
	for n < len(words) && (n == 0 || !resp.EqualFold(words[n], "ID")) {
		a := Args{}
		if text = a.SetCost(words[n]); text != "" {
			return 0, text
		}
		if n < len(costs) {
			costs[n] = a.Cost
		}
		n++
	}
	switch {
	case n == 1:
		for i := range costs {
			costs[i] = costs[0]
		}
	case n != len(costs):
		return 0, "ERR " + english.Count(len(costs), "key") + " and " + english.Count(n, "cost") + ": give one cost for all keys, or one for each"
	}
	return n, ""
}
