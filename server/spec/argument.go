package spec

import "strings"

// An Argument describes one argument for COMMAND DOCS and the reference.
type Argument struct {
	Name     string
	Kind     string // key string integer double pure-token oneof block
	Token    string // the word before it
	Optional bool
	Multiple bool
	Args     []Argument
}

// Text returns an argument of any bytes.
func Text(name string) Argument { return Argument{Name: name, Kind: "string"} }

// Integer returns an argument that is an integer.
func Integer(name string) Argument { return Argument{Name: name, Kind: "integer"} }

// Key returns an argument that is a key.
func Key(name string) Argument { return Argument{Name: name, Kind: "key"} }

// Word returns an argument that is a fixed word.
func Word(token string) Argument {
	return Argument{Name: strings.ToLower(token), Kind: "pure-token", Token: token}
}

// OneOf returns an argument that is one of args and may be left out.
func OneOf(name string, args ...Argument) Argument {
	return Argument{Name: name, Kind: "oneof", Optional: true, Args: args}
}

// Words returns an argument that is one of several fixed words.
func Words(name string, tokens ...string) Argument {
	a := Argument{Name: name, Kind: "oneof"}
	for _, token := range tokens {
		a.Args = append(a.Args, Word(token))
	}
	return a
}

// Optional returns a, which may be left out.
func Optional(a Argument) Argument {
	a.Optional = true
	return a
}

// Several returns a, which may be repeated.
func Several(a Argument) Argument {
	a.Multiple = true
	return a
}
