package server

import (
	"errors"

	"limitdb/limit"
	"limitdb/resp"
)

// limitArgs are the arguments after the key of a command that decides: a limit, and the command's
// own options.
type limitArgs struct {
	limit   limit.Limit
	cost    int64 // 1 if not given
	maxWait int64 // of MAXWAIT or WAIT: ns, negative if not given
	given   ownOptions
}

// ownOptions is a set of options that belong to a command, not to the limit.
type ownOptions uint8

const (
	ownCost ownOptions = 1 << iota
	ownPartial
	ownMaxWait
	ownWait
	ownReplace
)

// ownOption finds an option by its name in any case. It returns 0 if there is none.
func ownOption(word []byte) (o ownOptions, name string) {
	for i, name := range ownNames() {
		if resp.EqualFold(word, name) {
			return 1 << i, name
		}
	}
	return 0, ""
}

// ownNames returns the names of the options, in the order of their bits.
func ownNames() [5]string { return [...]string{"COST", "PARTIAL", "MAXWAIT", "WAIT", "REPLACE"} }

// parseLimit parses the words of a limit and its options from the start of words. It returns how
// many they are, or the text of the error.
func parseLimit(zones *limit.Zones, words [][]byte, allowed ownOptions, a *limitArgs) (n int, text string) {
	p := limit.Parser{Zones: zones}
	a.cost, a.maxWait, a.given = 1, -1, 0
	n, err := p.Head(words)
	for err == nil && n < len(words) {
		var used int
		if used, err = p.Option(words[n:]); err == nil && used == 0 {
			if used, text = a.own(words[n:], allowed); text != "" {
				return n, text
			}
			if used == 0 {
				break
			}
		}
		n += used
	}
	if err == nil {
		a.limit, err = p.Finish()
	}
	switch {
	case errors.Is(err, limit.ErrAlgorithm):
		return n, aside(limitError(err), noAlgorithm(words[0]))
	case err != nil:
		return n, limitError(err)
	}
	return n, ""
}

// own parses one of the command's own options from the start of words. It returns how many words
// the option has, 0 if the first word is not an allowed option.
func (a *limitArgs) own(words [][]byte, allowed ownOptions) (n int, text string) {
	o, name := ownOption(words[0])
	switch {
	case o&allowed == 0:
		return 0, ""
	case o&a.given != 0:
		return 0, "ERR syntax error: " + name + " is given twice"
	}
	a.given |= o
	if o == ownPartial || o == ownReplace {
		return 1, ""
	}
	if len(words) < 2 {
		return 0, "ERR syntax error: " + name + " without its value"
	}
	switch o {
	case ownCost:
		text = a.setCost(words[1])
	case ownMaxWait, ownWait:
		var err error
		if a.maxWait, err = limit.ParseTime(words[1]); err != nil {
			text = "ERR " + name + ": " + err.Error()
		}
	}
	return 2, text
}

func (a *limitArgs) setCost(word []byte) (text string) {
	var ok bool
	if a.cost, ok = resp.ParseInt(word); !ok {
		return "ERR COST must be an integer: " + resp.Quote(word)
	}
	if a.cost < 0 {
		return errCostNegative
	}
	return ""
}

// errUnknownOption returns the error for a word that is neither an option of the limit nor one of
// the command's own.
func errUnknownOption(word []byte, a *limitArgs, allowed ownOptions) string {
	return aside("ERR unknown option "+resp.Quote(word)+" for "+a.limit.Algorithm.String(), noOption(word, a.limit.Algorithm, allowed))
}
