package request

import (
	"errors"
	"math"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
)

// redis-cell's error texts. They have no "ERR" prefix, so that code which compares them still works.
const (
	cellPrefix   = "Cell error: Store error: "
	CellUsage    = cellPrefix + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	cellNotInt   = cellPrefix + "Couldn't parse as integer: "
	cellZeroRate = cellPrefix + "Zero rates are not supported"
)

// ParseThrottle parses CL.THROTTLE. It returns the text of the error, or "".
func ParseThrottle(_ *limit.Zones, args [][]byte, p *Plan) (text string) {
	if len(args) > 6 {
		return CellUsage
	}
	var n [4]int64
	n[3] = 1
	for i, a := range args[2:] {
		v, ok := parseCellInt(a)
		if !ok {
			return cellNotInt + resp.Excerpt(a)
		}
		n[i] = v
	}
	l, err := limit.Cell(n[0], n[1], n[2])
	if err != nil {
		return CellError(err)
	}
	*p = Plan{Args: Args{Limit: l, Cost: n[3]}, Style: AsCell}
	if p.Cost < 0 { // gives back
		p.Op, p.Cost = Refund, -p.Cost
	}
	if p.Cost == math.MinInt64 {
		return CellError(limit.ErrOverflow)
	}
	return ""
}

// CellError returns the reply for an error, in the words of redis-cell.
func CellError(err error) string {
	if errors.Is(err, limit.ErrZeroRate) {
		return cellZeroRate
	}
	return cellPrefix + err.Error()
}

// parseCellInt reads an i64 as redis-cell does: a sign, also +, and digits.
func parseCellInt(b []byte) (int64, bool) {
	if len(b) > 1 && b[0] == '+' && b[1] != '-' && b[1] != '+' {
		b = b[1:]
	}
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	// Accumulate a negative number, since only that can hold the least int64.
	var n int64
	for _, c := range b {
		d := int64(c - '0')
		if c < '0' || c > '9' || n < (math.MinInt64+d)/10 {
			return 0, false
		}
		n = n*10 - d
	}
	if neg {
		return n, true
	}
	return -n, n != math.MinInt64
}

// ParseGCRA parses GCRA. It returns the text of the error, or "".
func ParseGCRA(_ *limit.Zones, args [][]byte, p *Plan) (text string) {
	burst, ok1 := resp.ParseInt(args[2])
	tokens, ok2 := resp.ParseInt(args[3])
	if !ok1 || !ok2 {
		return spec.ErrNotInt
	}
	l, err := limit.CellDecimal(burst, tokens, args[4])
	if err != nil {
		return ErrorText(err)
	}
	cost := int64(1)
	switch {
	case len(args) == 5:
	case len(args) == 7 && (resp.EqualFold(args[5], "TOKENS") || resp.EqualFold(args[5], "NUM_REQUESTS")):
		var ok bool
		if cost, ok = resp.ParseInt(args[6]); !ok || cost < 1 {
			return "ERR TOKENS must be an integer of 1 or more"
		}
	default:
		return spec.ErrSyntax
	}
	*p = Plan{Args: Args{Limit: l, Cost: cost}, Style: InSeconds}
	return ""
}
