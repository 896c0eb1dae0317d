package handler

import (
	"strings"

	"limitdb/internal/glob"
	"limitdb/resp"
	"limitdb/server/spec"
)

// ErrCursor is the error for a cursor that is no number.
const ErrCursor = "ERR invalid cursor"

// ScanArgs are the options of SCAN and its relatives.
type ScanArgs struct {
	Count int64
	Match *glob.Pattern // nil: anything
	Type  string        // in lower case; "": any
}

// ParseScan parses the options of SCAN, or of a relative that has no TYPE. It returns the text of the error, or "".
func ParseScan(words [][]byte, typed bool) (a ScanArgs, text string) {
	a.Count = 10
	for ; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			return a, spec.ErrSyntax
		}
		var ok bool
		switch v := words[1]; {
		case resp.EqualFold(words[0], "MATCH"):
			if a.Match, ok = glob.Compile(v); !ok {
				return a, spec.ErrPatternTooLong
			}
		case resp.EqualFold(words[0], "TYPE") && typed:
			a.Type = strings.ToLower(string(v))
		case resp.EqualFold(words[0], "COUNT"):
			if a.Count, ok = resp.ParseInt(v); !ok {
				return a, spec.ErrNotInt
			}
			if a.Count < 1 {
				return a, spec.ErrSyntax
			}
		default:
			return a, spec.ErrSyntax
		}
	}
	return a, ""
}
