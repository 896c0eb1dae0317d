package server

import (
	"limitdb/limit"
	"limitdb/resp"
)

// The limiter's own commands: a limit is given at every call, in its one spelling.
func takeCommands() []command {
	limitArgs := func(more ...argument) []argument {
		return append([]argument{
			{name: "key", kind: "key"},
			{name: "algorithm", kind: "string"},
			{name: "limit", kind: "string"},
			{name: "period", kind: "string", optional: true},
			{name: "burst", kind: "integer", token: "BURST", optional: true},
		}, more...)
	}
	cost := argument{name: "cost", kind: "integer", token: "COST", optional: true}
	return []command{
		{
			name: "RL.TAKE", arity: -4, flags: flagWrite | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Takes from a limit, or is denied.",
			args:    limitArgs(cost),
			notes:   takeNotes,
			run:     func(s *session, args [][]byte) { s.limitCommand(args, opTake) },
		},
		{
			name: "RL.PEEK", arity: -4, flags: flagReadonly | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Answers as RL.TAKE would and changes nothing.",
			args:    limitArgs(cost),
			notes:   peekNotes,
			run:     func(s *session, args [][]byte) { s.limitCommand(args, opPeek) },
		},
		{
			name: "RL.REFUND", arity: -4, flags: flagWrite | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Gives back what was taken, never above full.",
			args:    limitArgs(cost),
			notes:   refundNotes,
			run:     func(s *session, args [][]byte) { s.limitCommand(args, opRefund) },
		},
		{
			name: "RL.RESET", arity: -2, flags: flagWrite | flagFast | flagWide, firstKey: 1, lastKey: -1, step: 1, keyFlags: []string{"RM", "delete"},
			group: "limiter", since: "1.0.0", complexity: "O(n) for n keys",
			summary: "Forgets keys; replies how many there were.",
			args:    []argument{{name: "key", kind: "key", multiple: true}},
			run:     (*session).del,
		},
		{
			name: "RL.INFO", arity: 2, flags: flagReadonly | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Tells a key's algorithm, state, level, time to reset and memory, or null.",
			args:    []argument{{name: "key", kind: "key"}},
			run:     (*session).rlInfo,
		},
	}
}

type limitOp uint8

const (
	opTake limitOp = iota
	opPeek
	opRefund
)

// limitCommand runs RL.TAKE, RL.PEEK and RL.REFUND: they differ in the engine's step only.
func (s *session) limitCommand(args [][]byte, op limitOp) {
	l, cost, ok := s.parseLimit(args[2:])
	if !ok {
		return
	}
	var d limit.Decision
	var err error
	switch op {
	case opTake:
		err = s.srv.engine.Take(s.now, args[1], &l, cost, &d)
	case opPeek:
		err = s.srv.engine.Peek(s.now, args[1], &l, cost, &d)
	case opRefund:
		err = s.srv.engine.Refund(s.now, args[1], &l, cost, &d)
	}
	if err != nil {
		s.fail(limitError(err))
		return
	}
	s.decisionMillis(&d)
}

// parseLimit reads a limit and the command's own options, in any order after the
// limit's first words; it replies with the error and returns false if it cannot.
func (s *session) parseLimit(words [][]byte) (l limit.Limit, cost int64, ok bool) {
	var p limit.Parser
	cost = -1
	n, err := p.Head(words)
	for err == nil && n < len(words) {
		var used int
		if used, err = p.Option(words[n:]); err != nil || used > 0 {
			n += used
			continue
		}
		if !foldEqual(words[n], "COST") {
			s.fail("ERR unknown option " + quoted(words[n]) + " for " + string(appendUpper(nil, words[0])))
			return l, 0, false
		}
		if cost, ok = s.costOption(words[n:], cost); !ok {
			return l, 0, false
		}
		n += 2
	}
	if err == nil {
		l, err = p.Finish()
	}
	if err != nil {
		s.fail(limitError(err))
		return l, 0, false
	}
	if cost < 0 {
		cost = 1
	}
	return l, cost, true
}

// costOption reads "COST n"; before is the cost so far, negative if none was given.
func (s *session) costOption(words [][]byte, before int64) (int64, bool) {
	switch {
	case before >= 0:
		s.fail("ERR syntax error: COST is given twice")
		return 0, false
	case len(words) < 2:
		s.fail("ERR syntax error: COST without its number")
		return 0, false
	}
	cost, ok := resp.ParseInt(words[1])
	if !ok {
		s.fail("ERR COST must be an integer: " + quoted(words[1]))
		return 0, false
	}
	if cost < 0 {
		s.fail(errCostNegative)
		return 0, false
	}
	return cost, true
}

// appendUpper appends b, which is known to be a word of ours, in upper case.
func appendUpper(dst, b []byte) []byte {
	for _, c := range b {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

func (s *session) rlInfo(args [][]byte) {
	info, ok := s.srv.engine.Info(s.now, args[1])
	if !ok {
		s.null()
		return
	}
	left := limit.Milliseconds(info.Expires - s.now)
	s.mapOf(5)
	s.text("algorithm")
	s.text(info.Algorithm.TypeName())
	s.text("state") // what the bucket family keeps: when the bucket will be full, Unix ns
	s.int(info.Expires)
	s.text("level") // how far the bucket is from full, as a time in ns
	s.int(info.Expires - s.now)
	s.text("resets_in")
	s.int(left)
	s.text("memory")
	s.int(info.Bytes)
}
