package request

import (
	"math"
	"strconv"
	"strings"

	"limitdb/engine"
	"limitdb/hold"
	"limitdb/limit"
	"limitdb/resp"
)

// HoldArgs are the arguments after the key of RL.HOLD. The id is a slice of the arguments.
type HoldArgs struct {
	Args
	engine.Hold
	over bool // ONEXPIRE is given
}

// PlanHold parses RL.HOLD: a limit and its options, and then what is held, whose options may be in any order. CheckTTL must
// say that its time is not too long.
func PlanHold(zones *limit.Zones, args [][]byte, p *Plan) (text string) {
	words := args[2:]
	n, text := ParseLimit(zones, words, OwnCost|OwnWait, &p.Args)
	if text != "" {
		return text
	}
	a := HoldArgs{Args: p.Args}
	if n < len(words) {
		if o, _ := ownOption(words[n]); o == 0 && !isHoldOption(words[n]) {
			return UnknownOption(words[n], &a.Args, OwnCost|OwnWait)
		}
	}
	if text = Options(words[n:], "RL.HOLD", a.set, "TTL", "ID", "ONEXPIRE", "COST", "WAIT"); text != "" {
		return text
	}
	if text = a.check("RL.HOLD", math.MaxInt64); text == "" && a.Cost < 1 {
		text = errNoEstimate
	}
	p.Args, p.Op, p.Style = a.Args, Hold, InMillis
	if p.OnceID, p.OnceFor = a.ID, a.TTL; a.Returns {
		p.Given |= OwnReturn
	}
	return text
}

// PlanCommit parses RL.COMMIT. Without COST, the plan's is -1.
func PlanCommit(_ *limit.Zones, args [][]byte, p *Plan) (text string) {
	*p = Plan{Args: Args{Cost: -1, MaxWait: -1}, Op: Commit}
	words := args[2:]
	if len(words) == 4 && string(words[0]) == "ID" && string(words[2]) == "COST" { // nearly always
		if p.OnceID, text = words[1], CheckHoldID(words[1]); text != "" {
			return text
		}
		return p.SetCost(words[3])
	}
	if text = Options(words, "RL.COMMIT", func(name string, word []byte) string {
		if name == "COST" {
			return p.SetCost(word)
		}
		p.OnceID = word
		return CheckHoldID(word)
	}, "ID", "COST"); text == "" && p.OnceID == nil {
		text = "ERR syntax error: RL.COMMIT needs ID id"
	}
	return text
}

// PlanCancel parses RL.CANCEL.
func PlanCancel(_ *limit.Zones, args [][]byte, p *Plan) (text string) {
	if !resp.EqualFold(args[2], "ID") {
		return "ERR syntax error: ID id is expected, not " + resp.Quote(args[2])
	}
	*p = Plan{Args: Args{MaxWait: -1, OnceID: args[3]}, Op: Cancel}
	return CheckHoldID(args[3])
}

// errNoEstimate is the reply to a hold of nothing.
const errNoEstimate = "ERR COST must be 1 or more: a hold takes an estimate"

// check returns the text of the error if a command's hold lacks something, or is too long, or "".
func (a *HoldArgs) check(command string, maxTTL int64) (text string) {
	switch {
	case a.TTL == 0:
		return "ERR syntax error: " + command + " needs TTL time"
	case a.ID == nil:
		return "ERR syntax error: " + command + " needs ID id"
	}
	return CheckTTL(a.TTL, maxTTL)
}

// CheckTTL returns the text of the error if the time of a hold is longer than the longest, in ns, or "".
func CheckTTL(ttl, maxTTL int64) (text string) {
	if ttl <= maxTTL {
		return ""
	}
	return "ERR TTL is above hold-max-ttl, " + strconv.FormatInt(limit.Seconds(maxTTL), 10) + " s"
}

// isHoldOption reports whether a word is an option of RL.HOLD alone.
func isHoldOption(word []byte) bool {
	return resp.EqualFold(word, "TTL") || resp.EqualFold(word, "ID") || resp.EqualFold(word, "ONEXPIRE")
}

func (a *HoldArgs) set(name string, word []byte) (text string) {
	switch name {
	case "TTL":
		a.TTL, text = ParseTTL(word)
	case "ID":
		a.ID = word
		return CheckHoldID(word)
	case "ONEXPIRE":
		a.over = true
		if a.Returns = resp.EqualFold(word, "RETURN"); !a.Returns && !resp.EqualFold(word, "KEEP") {
			return "ERR ONEXPIRE is keep or return, not " + resp.Quote(word)
		}
	default:
		_, text = a.Option([][]byte{[]byte(name), word}, OwnCost|OwnWait)
	}
	return text
}

// Of parses an option of a hold of RL.CHECK, whose time is that of HOLD, from the start of words. It returns how many words the option
// has, 0 if the first word is none.
func (a *HoldArgs) Of(words [][]byte) (n int, text string) {
	for _, o := range [...]struct {
		word, name string
		given      bool
	}{{"HOLD", "TTL", a.TTL != 0}, {"ID", "ID", a.ID != nil}, {"ONEXPIRE", "ONEXPIRE", a.over}} {
		switch {
		case !resp.EqualFold(words[0], o.word):
			continue
		case o.given:
			return 0, "ERR syntax error: " + o.word + " is given twice"
		case len(words) < 2:
			return 0, noValue(o.word)
		}
		return 2, a.set(o.name, words[1])
	}
	return 0, ""
}

// CheckIn returns the text of the error if a check with a cost cannot be held so, or "". maxTTL is the longest time of a hold, in ns.
func (a *HoldArgs) CheckIn(cost, maxTTL int64) (text string) {
	switch {
	case a.TTL == 0 && (a.ID != nil || a.over):
		return "ERR syntax error: ID and ONEXPIRE are for HOLD"
	case a.TTL == 0:
		return ""
	case a.ID == nil:
		return "ERR syntax error: HOLD needs ID id"
	case cost < 1:
		return errNoEstimate
	}
	return strings.Replace(a.check("RL.CHECK", maxTTL), "TTL", "HOLD", 1)
}

// CheckHoldID returns the text of the error if word cannot be the id of a hold, or of ONCE, or "".
func CheckHoldID(word []byte) (text string) {
	if len(word) < 1 || len(word) > hold.MaxID {
		return "ERR ID must have 1 to " + strconv.Itoa(hold.MaxID) + " bytes: " + resp.Quote(word)
	}
	return ""
}
