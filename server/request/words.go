package request

import (
	"strings"

	"limitdb/limit"
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

// CostWord describes COST.
func CostWord() spec.Argument {
	return spec.Argument{Name: "cost", Kind: "integer", Token: "COST", Optional: true}
}

// WaitWord describes WAIT.
func WaitWord() spec.Argument {
	return spec.Argument{Name: "wait", Kind: "string", Token: "WAIT", Optional: true}
}
