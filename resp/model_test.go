package resp

import (
	"math/big"
	"regexp"
	"strings"
)

// The model reads commands in the simplest way: over the whole stream, as strings, with numbers of any size.

type verdict int

const (
	incomplete verdict = iota
	complete
	wrong
	skips // it is skipped, for the reason that text says
)

// model reads a whole stream.
func model(stream string, l Limits, wide func([]byte) bool) (o outcome) {
	for stream != "" {
		seen := stream[:min(len(stream), l.Query)]
		args, rest, what, text := modelCommand(seen, l, wide)
		if what == skips { // Query does not count for it
			seen = stream
			args = []string{text}
			rest, what, text = modelSkip(stream, l)
		}
		switch {
		case what == incomplete && len(seen) < len(stream):
			o.err = "Protocol error: too big query"
			return o
		case what == incomplete:
			o.partial = true
			return o
		case what == wrong:
			o.err = "Protocol error: " + text
			return o
		}
		if len(args) > 0 {
			o.commands = append(o.commands, args)
		}
		stream = stream[len(seen)-len(rest):]
	}
	return o
}

func modelCommand(s string, l Limits, wide func([]byte) bool) (args []string, rest string, what verdict, text string) {
	if s[0] != '*' {
		return modelInline(s, l, wide)
	}
	count, rest, what, text := modelHeader(s, "multibulk", "mbulk", l)
	if what != complete {
		return nil, rest, what, text
	}
	if count.Sign() <= 0 {
		return nil, rest, complete, ""
	}
	asks := false
	if count.Cmp(big.NewInt(int64(l.Args))) > 0 {
		if l.Unauthenticated {
			return nil, rest, wrong, "unauthenticated multibulk length"
		}
		if wide == nil || count.Cmp(big.NewInt(int64(l.WideArgs))) > 0 {
			if l.Skip > 0 && count.Cmp(big.NewInt(1<<20)) <= 0 {
				return nil, rest, skips, TooMany
			}
			return nil, rest, wrong, "invalid multibulk length"
		}
		asks = true
	}
	for int64(len(args)) < count.Int64() {
		if rest == "" {
			return nil, rest, incomplete, ""
		}
		if rest[0] != '$' {
			got := rest[:1]
			if q := Quote([]byte(got)); got != `"` && got != `\` { // these need no backslash here
				got = q[1 : len(q)-1]
			}
			return nil, rest, wrong, "expected '$', got '" + got + "'"
		}
		var length *big.Int
		length, rest, what, text = modelHeader(rest, "bulk", "bulk", l)
		if what != complete {
			return nil, rest, what, text
		}
		if length.Sign() < 0 {
			return nil, rest, wrong, "invalid bulk length"
		}
		if length.Cmp(big.NewInt(int64(l.Bulk))) > 0 {
			if l.Unauthenticated {
				return nil, rest, wrong, "unauthenticated bulk length"
			}
			if length.Cmp(big.NewInt(int64(l.Skip))) <= 0 {
				return nil, rest, skips, TooLong
			}
			return nil, rest, wrong, "invalid bulk length"
		}
		n := int(length.Int64())
		if len(rest) < n+2 {
			return nil, rest, incomplete, ""
		}
		if rest[n:n+2] != "\r\n" {
			return nil, rest, wrong, "expected CRLF after bulk"
		}
		args, rest = append(args, rest[:n]), rest[n+2:]
		if asks && !wide([]byte(args[0])) {
			if l.Skip > 0 {
				return nil, rest, skips, TooMany
			}
			return nil, rest, wrong, "invalid multibulk length"
		}
		asks = false
	}
	return args, rest, complete, ""
}

// modelSkip skips a command.
func modelSkip(s string, l Limits) (rest string, what verdict, text string) {
	l.Bulk, l.Skip, l.Args = max(l.Bulk, l.Skip), 0, 1<<20
	_, rest, what, text = modelCommand(s, l, nil)
	return rest, what, text
}

var (
	strictNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	minInt64, _  = new(big.Int).SetString("-9223372036854775808", 10)
	maxInt64, _  = new(big.Int).SetString("9223372036854775807", 10)
)

func modelHeader(s, name, redisName string, l Limits) (n *big.Int, rest string, what verdict, text string) {
	end := strings.IndexAny(s, "\r\n")
	longest := max(l.Inline, 24)
	if end > longest || end < 0 && len(s) > longest {
		return nil, s, wrong, "too big " + redisName + " count string"
	}
	if end < 0 || s[end:] == "\r" {
		return nil, s, incomplete, ""
	}
	if !strings.HasPrefix(s[end:], "\r\n") {
		return nil, s, wrong, "expected CRLF after " + name + " length"
	}
	number := s[1:end]
	if strictNumber.MatchString(number) {
		n, _ = new(big.Int).SetString(number, 10)
	}
	if n == nil || n.Cmp(minInt64) < 0 || n.Cmp(maxInt64) > 0 {
		return nil, s, wrong, "invalid " + name + " length"
	}
	return n, s[end+2:], complete, ""
}

func modelInline(s string, l Limits, wide func([]byte) bool) (args []string, rest string, what verdict, text string) {
	line, rest, found := strings.Cut(s, "\n")
	if len(line) > l.Inline {
		return nil, rest, wrong, "too big inline request"
	}
	if !found {
		return nil, rest, incomplete, ""
	}
	args, balanced := modelSplit(line)
	// Words are counted from the left, so too many words count before a later wrong quote.
	if len(args) > l.Args {
		isWide := !l.Unauthenticated && wide != nil && wide([]byte(args[0]))
		if !isWide || len(args) > l.WideArgs {
			return nil, rest, wrong, "too big inline request"
		}
	}
	if !balanced {
		return nil, rest, wrong, "unbalanced quotes in request"
	}
	return args, rest, complete, ""
}

// modelSplit splits an inline command with a state for each byte. If the quotes are unbalanced, it returns
// the words up to and including the bad one.
func modelSplit(line string) (words []string, balanced bool) {
	state := "between"
	word := ""
	for line != "" {
		c := line[0]
		var size int
		switch state {
		case "between":
			if !strings.Contains(" \t\n\v\f\r", line[:1]) {
				state, word = "word", ""
				continue
			}
		case "word":
			switch c {
			case ' ', '\t', '\n', '\r':
				words, state = append(words, word), "between"
			case '"':
				state = "double"
			case '\'':
				state = "single"
			default:
				word += line[:1]
			}
		case "double":
			switch {
			case c == '"':
				state = "closed"
			case hexEscape.MatchString(line):
				v, _ := new(big.Int).SetString(line[2:4], 16)
				word += string([]byte{byte(v.Int64())})
				size = 4
			case c == '\\' && len(line) > 1:
				word += strings.NewReplacer("n", "\n", "r", "\r", "t", "\t", "b", "\b", "a", "\a").Replace(line[1:2])
				size = 2
			default:
				word += line[:1]
			}
		case "single":
			switch {
			case c == '\'':
				state = "closed"
			case strings.HasPrefix(line, `\'`):
				word += "'"
				size = 2
			default:
				word += line[:1]
			}
		case "closed":
			words = append(words, word)
			if !strings.Contains(" \t\n\v\f\r", line[:1]) {
				return words, false
			}
			state = "between"
		}
		line = line[max(size, 1):]
	}
	switch state {
	case "word", "closed":
		return append(words, word), true
	case "double", "single":
		return append(words, word), false
	}
	return words, true
}

var hexEscape = regexp.MustCompile(`^\\x[0-9a-fA-F]{2}`)
