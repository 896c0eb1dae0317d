package spec

import "strings"

// AppendSyntax appends the command's name and its arguments as people write
// them: RL.TAKE key algorithm limit [period] [BURST burst] [COST cost].
func (c *Command) AppendSyntax(b []byte) []byte {
	if c.Parent != nil {
		b = append(append(b, c.Parent.Name...), ' ')
	}
	b = append(b, c.Name...)
	for i := range c.Args {
		b = append(b, ' ')
		b = c.Args[i].appendSyntax(b)
	}
	if len(c.Subs) > 0 && c.Arity < -1 {
		b = append(b, " subcommand [argument ...]"...)
	}
	return b
}

func (a *Argument) appendSyntax(b []byte) []byte {
	if a.Optional {
		b = append(b, '[')
	}
	if a.Token != "" {
		b = append(b, a.Token...)
		if a.Kind != "pure-token" {
			b = append(b, ' ')
		}
	}
	if a.Kind != "pure-token" {
		value := a.valueSyntax()
		b = append(b, value...)
		if a.Multiple {
			b = append(append(append(b, " ["...), value...), " ...]"...)
		}
	}
	if a.Optional {
		b = append(b, ']')
	}
	return b
}

// valueSyntax returns the syntax of the argument's value, without its token and not repeated.
func (a *Argument) valueSyntax() string {
	if len(a.Args) == 0 {
		return a.Name
	}
	parts := make([]string, len(a.Args))
	for i := range a.Args {
		parts[i] = string(a.Args[i].appendSyntax(nil))
	}
	if a.Kind != "oneof" {
		return strings.Join(parts, " ")
	}
	one := strings.Join(parts, " | ")
	if a.Optional && a.Token == "" && !a.Multiple {
		return one // the brackets group it
	}
	return "<" + one + ">"
}
