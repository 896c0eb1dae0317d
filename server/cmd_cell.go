package server

import (
	"errors"
	"math"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
)

// What users of redis-cell and of Redis' own GCRA command call.
func cellCommands() []command {
	return []command{
		{
			name: "CL.THROTTLE", example: "CL.THROTTLE user:17 15 30 60", arity: -5, usage: cellUsage, flags: flagWrite | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Takes from a GCRA limit with redis-cell's arguments and reply.",
			args: []argument{
				{name: "key", kind: "key"},
				{name: "max_burst", kind: "integer"},
				{name: "count_per_period", kind: "integer"},
				{name: "period", kind: "integer"},
				{name: "quantity", kind: "integer", optional: true},
			},
			run: (*session).clThrottle,
		},
		{
			name: "GCRA", example: "GCRA user:17 15 30 60", arity: -5, flags: flagWrite | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Takes from a GCRA limit with the arguments of Redis' GCRA command.",
			args: []argument{
				{name: "key", kind: "key"},
				{name: "max_burst", kind: "integer"},
				{name: "tokens_per_period", kind: "integer"},
				{name: "period", kind: "double"},
				{name: "tokens", kind: "integer", token: "TOKENS", optional: true},
			},
			run: (*session).gcra,
		},
	}
}

// redis-cell's words for its errors: without "ERR", so that code which compares them goes on working.
const (
	cellPrefix   = "Cell error: Store error: "
	cellUsage    = cellPrefix + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	cellNotInt   = cellPrefix + "Couldn't parse as integer: "
	cellZeroRate = cellPrefix + "Zero rates are not supported"
)

func (s *session) clThrottle(args [][]byte) {
	if len(args) > 6 {
		s.fail(cellUsage)
		return
	}
	var n [4]int64
	n[3] = 1
	for i, a := range args[2:] {
		v, ok := parseCellInt(a)
		if !ok {
			s.fail(cellNotInt + plainCut(a))
			return
		}
		n[i] = v
	}
	l, err := limit.Cell(n[0], n[1], n[2])
	if err != nil {
		s.fail(cellError(err))
		return
	}
	var d limit.Decision
	if err := s.takeOrRefund(args[1], &l, n[3], &d); err != nil {
		if errors.Is(err, engine.ErrWrongType) || errors.Is(err, engine.ErrOOM) {
			s.fail(s.limitErrorOf(err, args[1], limit.GCRA)) // of the server, not of redis-cell
			return
		}
		s.fail(cellError(err))
		return
	}
	s.decisionSeconds(&d)
}

// takeOrRefund takes quantity, or gives it back where it is negative.
func (s *session) takeOrRefund(key []byte, l *limit.Limit, quantity int64, d *limit.Decision) error {
	if quantity >= 0 {
		return s.srv.engine.TakeAt(s.place, s.now, key, l, quantity, d)
	}
	if quantity == math.MinInt64 {
		return limit.ErrOverflow
	}
	return s.srv.engine.Refund(s.now, key, l, -quantity, d)
}

func cellError(err error) string {
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
	// Gathered as a negative number, which has room for the least int64.
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

func (s *session) gcra(args [][]byte) {
	burst, ok1 := resp.ParseInt(args[2])
	tokens, ok2 := resp.ParseInt(args[3])
	if !ok1 || !ok2 {
		s.fail(errNotInt)
		return
	}
	l, err := limit.CellDecimal(burst, tokens, args[4])
	if err != nil {
		s.fail(limitError(err))
		return
	}
	cost := int64(1)
	switch {
	case len(args) == 5:
	case len(args) == 7 && (foldEqual(args[5], "TOKENS") || foldEqual(args[5], "NUM_REQUESTS")):
		var ok bool
		if cost, ok = resp.ParseInt(args[6]); !ok || cost < 1 {
			s.fail("ERR TOKENS must be an integer of 1 or more")
			return
		}
	default:
		s.fail(errSyntax)
		return
	}
	var d limit.Decision
	if err := s.srv.engine.TakeAt(s.place, s.now, args[1], &l, cost, &d); err != nil {
		s.fail(s.limitErrorOf(err, args[1], limit.GCRA))
		return
	}
	s.decisionSeconds(&d)
}

// decisionSeconds replies with five integers, times in whole seconds rounded up.
func (s *session) decisionSeconds(d *limit.Decision) {
	s.decision(d, limit.Seconds(d.Wait), limit.Seconds(d.Reset))
}

// decisionMillis replies with five integers, times in milliseconds rounded up.
func (s *session) decisionMillis(d *limit.Decision) {
	s.decision(d, limit.Milliseconds(d.Wait), limit.Milliseconds(d.Reset))
}

func (s *session) decision(d *limit.Decision, wait, reset int64) {
	s.array(5)
	s.five(d, wait, reset)
}

// fiveMillis is decisionMillis without the array around it.
func (s *session) fiveMillis(d *limit.Decision) {
	s.five(d, limit.Milliseconds(d.Wait), limit.Milliseconds(d.Reset))
}

// five appends the five integers of a decision.
func (s *session) five(d *limit.Decision, wait, reset int64) {
	limited := int64(0)
	if d.Limited {
		limited = 1
	}
	b := resp.AppendInt(s.out, limited)
	b = resp.AppendInt(b, d.Limit)
	b = resp.AppendInt(b, d.Remaining)
	b = resp.AppendInt(b, wait)
	s.out = resp.AppendInt(b, reset)
}
