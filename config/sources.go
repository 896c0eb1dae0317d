package config

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"limitdb/internal/suggest"
)

// fileLine is a line of the file.
type fileLine struct {
	raw   string   // with its newline, if it has one
	words []string // the directive and its value; empty for a comment or an empty line
	err   error    // unbalanced quotes
}

// blanks are the characters that isSpace accepts. Other Unicode spaces at the end of a line are kept, since
// they may belong to a password.
const blanks = " \t\n\v\f\r"

// splitFile splits the file into lines. Their raw texts joined are the file.
func splitFile(data []byte) []fileLine {
	var lines []fileLine
	for text := range bytes.Lines(data) {
		raw := string(text)
		l := fileLine{raw: raw}
		if len(lines) == 0 {
			raw = strings.TrimPrefix(raw, "\ufeff") // some editors write this at the start of a file
		}
		raw = strings.Trim(raw, blanks)
		if raw != "" && raw[0] != '#' {
			l.words, l.err = splitLine(raw)
		}
		lines = append(lines, l)
	}
	return lines
}

const envPrefix = "LIMITDB_"

// envName returns the name of a directive's environment variable.
func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// parseEnviron parses the variables that begin with LIMITDB_.
func (r *Registry) parseEnviron(environ []string) ([]assignment, error) {
	var all []assignment
	for _, e := range environ {
		name, val, _ := strings.Cut(e, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || ofKubernetes(rest, val) {
			continue
		}
		rest = strings.ToLower(strings.ReplaceAll(rest, "_", "-"))
		d := r.find(rest)
		if d == nil || envName(d.name) != name {
			return nil, fmt.Errorf("unknown environment variable %s%s", quote(name),
				r.suggest(rest, func(s string) string { return quote(envName(s)) }))
		}
		all = append(all, assignment{d, []string{val}, fromEnvironment, name, -1})
	}
	return all, nil
}

// ofKubernetes reports whether LIMITDB_ and rest form a variable that Kubernetes (like Docker's links before
// it) sets in every container for a service called limitdb or limitdb-something. Such a variable,
// LIMITDB_PORT for example, is not a directive.
func ofKubernetes(rest, val string) bool {
	if rest == "PORT" || strings.HasSuffix(rest, "_PORT") {
		scheme, _, found := strings.Cut(val, "://")
		if found && (scheme == "tcp" || scheme == "udp" || scheme == "sctp") {
			return true
		}
	}
	parts := strings.Split(rest, "_")
	for i, p := range parts[:len(parts)-1] {
		next := parts[i+1]
		if p == "SERVICE" && (next == "HOST" && i+2 == len(parts) || next == "PORT") {
			return true
		}
		if p == "PORT" && i+2 < len(parts) && isDigits(next) && slices.Contains([]string{"TCP", "UDP", "SCTP"}, parts[i+2]) {
			return true
		}
	}
	return false
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// parseArgs parses the options of the command line. A value ends before the next word that begins with "--".
// A value that itself begins with "--" is written --directive=value.
func (r *Registry) parseArgs(args []string) ([]assignment, error) {
	var all []assignment
	for i := 0; i < len(args); {
		if !strings.HasPrefix(args[i], "--") {
			return nil, fmt.Errorf("unexpected argument %s: directives are written --directive value", quote(args[i])) // only the first can be unexpected
		}
		name, val, joined := strings.Cut(args[i][len("--"):], "=")
		d := r.find(name)
		if d == nil {
			known, err := r.remarks.foreign("--", name, optionWords(args[i+1:], val, joined))
			if err != nil {
				return nil, err
			}
			if known {
				i += 1 + optionEnd(args[i+1:])
				continue
			}
			return nil, fmt.Errorf("unknown option %s%s", quote("--"+name),
				r.suggest(name, func(s string) string { return quote("--" + s) }))
		}
		i++
		words := optionWords(args[i:], val, joined)
		i += optionEnd(args[i:])
		all = append(all, assignment{d, words, fromArguments, "--" + d.name, -1})
	}
	return all, nil
}

// optionEnd returns how many of args belong to the option before them.
func optionEnd(args []string) int {
	end := 0
	for end < len(args) && !strings.HasPrefix(args[end], "--") {
		end++
	}
	return end
}

// optionWords returns the value of an option: val, if it is joined to the name, and the args that follow.
func optionWords(args []string, val string, joined bool) []string {
	words := slices.Clone(args[:optionEnd(args)])
	if joined {
		words = slices.Insert(words, 0, val)
	}
	return words
}

// suggest returns " (did you mean …?)" if name is close to the name of a directive, else "".
func (r *Registry) suggest(name string, quote func(string) string) string {
	near, ok := suggest.Nearest(name, r.list, func(d *directive) string { return d.name })
	if !ok {
		return ""
	}
	return " (did you mean " + quote(near) + "?)"
}

// onOneLine returns path unchanged if it is printable, else quoted and cut.
func onOneLine(path string) string {
	const longest = 512
	if q := strconv.Quote(path); path == "" || len(path) > longest || q[1:len(q)-1] != path {
		return quote(path)
	}
	return path
}
