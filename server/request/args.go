package request

import (
	"errors"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
)

// Args are the arguments after the key of a command that decides: a limit, and the command's
// own options.
type Args struct {
	Limit   limit.Limit
	Cost    int64 // 1 if not given
	MaxWait int64 // of MAXWAIT or WAIT: ns, negative if not given
	Given   Own
	// OnceID and OnceFor are those of ONCE; in the plan of a hold, its id and its time. The id is a slice of the words.
	OnceID  []byte
	OnceFor int64 // ns
}

// Own is a set of options that belong to a command, not to the limit.
type Own uint8

const (
	OwnCost Own = 1 << iota
	OwnPartial
	OwnMaxWait
	OwnWait
	OwnReplace
	OwnOnce
	OwnReturn // ONEXPIRE return, in the plan of a hold
)

// ownOption finds an option by its name in any case. It returns 0 if there is none.
func ownOption(word []byte) (o Own, name string) {
	for i, name := range ownNames() {
		if resp.EqualFold(word, name) {
			return 1 << i, name
		}
	}
	return 0, ""
}

// ownNames returns the names of the options, in the order of their bits.
func ownNames() [6]string {
	return [...]string{"COST", "PARTIAL", "MAXWAIT", "WAIT", "REPLACE", "ONCE"}
}

// ParseLimit parses the words of a limit and its options from the start of words. It returns how
// many they are, or the text of the error.
func ParseLimit(zones *limit.Zones, words [][]byte, allowed Own, a *Args) (n int, text string) {
	p := limit.Parser{Zones: zones}
	a.Cost, a.MaxWait, a.Given = 1, -1, 0
	n, err := p.Head(words)
	for err == nil && n < len(words) {
		var used int
		if used, err = p.Option(words[n:]); err == nil && used == 0 {
			if used, text = a.Option(words[n:], allowed); text != "" {
				return n, text
			}
			if used == 0 {
				break
			}
		}
		n += used
	}
	if err == nil {
		a.Limit, err = p.Finish()
	}
	switch {
	case errors.Is(err, limit.ErrAlgorithm):
		return n, spec.Aside(ErrorText(err), noAlgorithm(words[0]))
	case err != nil:
		return n, ErrorText(err)
	}
	return n, ""
}

// Option parses one of the command's own options from the start of words. It returns how many words
// the option has, 0 if the first word is not an allowed option.
func (a *Args) Option(words [][]byte, allowed Own) (n int, text string) {
	o, name := ownOption(words[0])
	switch {
	case o&allowed == 0:
		return 0, ""
	case o&a.Given != 0:
		return 0, "ERR syntax error: " + name + " is given twice"
	}
	a.Given |= o
	if o == OwnPartial || o == OwnReplace {
		return 1, ""
	}
	if len(words) < 2 {
		return 0, noValue(name)
	}
	switch o {
	case OwnCost:
		text = a.SetCost(words[1])
	case OwnMaxWait, OwnWait:
		var err error
		if a.MaxWait, err = limit.ParseTime(words[1]); err != nil {
			text = "ERR " + name + ": " + err.Error()
		}
	case OwnOnce:
		return a.once(words)
	}
	return 2, text
}

// SetCost reads the value of COST. It returns the text of the error, or "".
func (a *Args) SetCost(word []byte) (text string) {
	var ok bool
	if a.Cost, ok = resp.ParseInt(word); !ok {
		return "ERR COST must be an integer: " + resp.Quote(word)
	}
	if a.Cost < 0 {
		return ErrCostNegative
	}
	return ""
}

// UnknownOption returns the error for a word that is neither an option of the limit nor one of
// the command's own.
func UnknownOption(word []byte, a *Args, allowed Own) string {
	return spec.Aside("ERR unknown option "+resp.Quote(word)+" for "+a.Limit.Algorithm.String(), noOption(word, a.Limit.Algorithm, allowed))
}
