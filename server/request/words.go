package request

import (
	"slices"
	"strings"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
)

// Words returns the arguments that describe a limit, followed by more.
func Words(more ...spec.Argument) []spec.Argument {
	words := []spec.Argument{
		{Name: "algorithm", Kind: "string"},
		{Name: "limit", Kind: "string"},
		{Name: "period", Kind: "string", Optional: true},
	}
	for _, o := range limit.Options() {
		a := spec.Argument{Name: o.Value, Kind: "string", Token: o.Name, Optional: true}
		switch {
		case o.Value == "":
			a.Name, a.Kind = strings.ToLower(o.Name), "pure-token"
		case o.Integer:
			a.Kind = "integer"
		}
		words = append(words, a)
	}
	return append(words, more...)
}

// Options calls set with the name and the value of each option in words, which are options of a command with these names, in
// any case. It returns the text of the error, or "".
func Options(words [][]byte, command string, set func(name string, value []byte) (text string), names ...string) (text string) {
	given := 0 // a bit for each name
	for ; len(words) > 0; words = words[2:] {
		i := slices.IndexFunc(names, func(name string) bool { return resp.EqualFold(words[0], name) })
		switch {
		case i < 0:
			return "ERR unknown option " + resp.Quote(words[0]) + " for " + command
		case given&(1<<i) != 0:
			return "ERR syntax error: " + names[i] + " is given twice"
		case len(words) < 2:
			return noValue(names[i])
		}
		given |= 1 << i
		if text = set(names[i], words[1]); text != "" {
			return text
		}
	}
	return ""
}

// CostWord describes COST.
func CostWord() spec.Argument {
	return spec.Argument{Name: "cost", Kind: "integer", Token: "COST", Optional: true}
}

// WaitWord describes WAIT.
func WaitWord() spec.Argument {
	return spec.Argument{Name: "wait", Kind: "string", Token: "WAIT", Optional: true}
}

// OnceWords describes ONCE.
func OnceWords() spec.Argument {
	return spec.Argument{Name: "once", Kind: "block", Optional: true, Args: []spec.Argument{
		{Name: "id", Kind: "string", Token: "ONCE"}, {Name: "time", Kind: "string", Token: "FOR", Optional: true},
	}}
}
