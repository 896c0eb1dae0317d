package spec

import (
	"strings"
	"testing"
)

func TestSyntax(t *testing.T) {
	t.Parallel()
	key := Key("key")
	flag := func(n string) Argument {
		return Argument{Name: strings.ToLower(n), Kind: "pure-token", Token: n}
	}
	opt := func(a Argument) Argument { a.Optional = true; return a }
	many := func(a Argument) Argument { a.Multiple = true; return a }
	block := Argument{Name: "b", Kind: "block", Args: []Argument{{Name: "k", Kind: "string"}, {Name: "v", Kind: "string"}}}
	choice := Argument{Name: "c", Kind: "oneof", Args: []Argument{flag("ON"), {Name: "n", Kind: "integer", Token: "AT"}}}
	tokened := choice
	tokened.Token = "SET"
	for _, step := range []struct {
		args []Argument
		want string
	}{
		{nil, "X"},
		{[]Argument{key, opt(Argument{Name: "n", Kind: "integer", Token: "COUNT"})}, "X key [COUNT n]"},
		{[]Argument{many(key)}, "X key [key ...]"},
		{[]Argument{opt(many(key))}, "X [key [key ...]]"},
		{[]Argument{many(block)}, "X k v [k v ...]"},
		{[]Argument{choice, opt(flag("NOW"))}, "X <ON | AT n> [NOW]"},
		{[]Argument{opt(choice)}, "X [ON | AT n]"},
		{[]Argument{opt(tokened)}, "X [SET <ON | AT n>]"},
		{[]Argument{opt(many(Argument{Name: "id", Kind: "integer", Token: "ID"}))}, "X [ID id [id ...]]"},
	} {
		c := Command{Name: "X", Args: step.args}
		if got := string(c.AppendSyntax(nil)); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}
