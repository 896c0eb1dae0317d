package server

import "strings"

// appendSyntax appends the command's name and its arguments as people write
// them: RL.TAKE key algorithm limit [period] [BURST burst] [COST cost].
func (c *command) appendSyntax(b []byte) []byte {
	if c.parent != nil {
		b = append(append(b, c.parent.name...), ' ')
	}
	b = append(b, c.name...)
	for i := range c.args {
		b = append(b, ' ')
		b = c.args[i].appendSyntax(b)
	}
	if len(c.subs) > 0 && c.run == nil {
		b = append(b, " subcommand [argument ...]"...)
	}
	return b
}

func (a *argument) appendSyntax(b []byte) []byte {
	if a.optional {
		b = append(b, '[')
	}
	if a.token != "" {
		b = append(b, a.token...)
		if a.kind != "pure-token" {
			b = append(b, ' ')
		}
	}
	if a.kind != "pure-token" {
		value := a.valueSyntax()
		b = append(b, value...)
		if a.multiple {
			b = append(append(append(b, " ["...), value...), " ...]"...)
		}
	}
	if a.optional {
		b = append(b, ']')
	}
	return b
}

// valueSyntax returns the syntax of the argument's value, without its token and not repeated.
func (a *argument) valueSyntax() string {
	if len(a.args) == 0 {
		return a.name
	}
	parts := make([]string, len(a.args))
	for i := range a.args {
		parts[i] = string(a.args[i].appendSyntax(nil))
	}
	if a.kind != "oneof" {
		return strings.Join(parts, " ")
	}
	one := strings.Join(parts, " | ")
	if a.optional && a.token == "" && !a.multiple {
		return one // the brackets group it
	}
	return "<" + one + ">"
}
