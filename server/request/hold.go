package request

import (
	"strconv"

	"limitdb/engine"
	"limitdb/hold"
	"limitdb/limit"
	"limitdb/resp"
)

// HoldArgs are the arguments after the key of RL.HOLD. The id is a slice of the arguments.
type HoldArgs struct {
	Args
	engine.Hold
}

// ParseHold parses a limit and its options, and then what is held, whose options may be in any order. maxTTL is the
// longest time of a hold, in ns. It returns the text of the error, or "".
func ParseHold(zones *limit.Zones, words [][]byte, maxTTL int64, a *HoldArgs) (text string) {
	a.Hold = engine.Hold{}
	n, text := ParseLimit(zones, words, OwnCost|OwnWait, &a.Args)
	if text != "" {
		return text
	}
	if n < len(words) {
		if o, _ := ownOption(words[n]); o == 0 && !isHoldOption(words[n]) {
			return UnknownOption(words[n], &a.Args, OwnCost|OwnWait)
		}
	}
	if text = Options(words[n:], "RL.HOLD", a.set, "TTL", "ID", "ONEXPIRE", "COST", "WAIT"); text != "" {
		return text
	}
	if text = a.check("RL.HOLD", maxTTL); text == "" && a.Cost < 1 {
		text = errNoEstimate
	}
	return text
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
	case a.TTL > maxTTL:
		return "ERR TTL is above hold-max-ttl, " + strconv.FormatInt(limit.Seconds(maxTTL), 10) + " s"
	}
	return ""
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
		if a.Returns = resp.EqualFold(word, "RETURN"); !a.Returns && !resp.EqualFold(word, "KEEP") {
			return "ERR ONEXPIRE is keep or return, not " + resp.Quote(word)
		}
	default:
		_, text = a.Option([][]byte{[]byte(name), word}, OwnCost|OwnWait)
	}
	return text
}

// CheckHoldID returns the text of the error if word cannot be the id of a hold, or of ONCE, or "".
func CheckHoldID(word []byte) (text string) {
	if len(word) < 1 || len(word) > hold.MaxID {
		return "ERR ID must have 1 to " + strconv.Itoa(hold.MaxID) + " bytes: " + resp.Quote(word)
	}
	return ""
}
