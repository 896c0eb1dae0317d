package server

import (
	"strings"

	"limitdb/engine"
	"limitdb/limit"
)

// limitWords are the words of a limit, and more.
func limitWords(more ...argument) []argument {
	words := []argument{
		{name: "algorithm", kind: "string"},
		{name: "limit", kind: "string"},
		{name: "period", kind: "string", optional: true},
	}
	for _, o := range limit.Options() {
		a := argument{name: o.Value, kind: "string", token: o.Name, optional: true}
		switch {
		case o.Value == "":
			a.name, a.kind = strings.ToLower(o.Name), "pure-token"
		case o.Integer:
			a.kind = "integer"
		}
		words = append(words, a)
	}
	return append(words, more...)
}

// limitOf are the words of a key and its limit, and more.
func limitOf(more ...argument) []argument {
	return append([]argument{{name: "key", kind: "key"}}, limitWords(more...)...)
}

func costWord() argument {
	return argument{name: "cost", kind: "integer", token: "COST", optional: true}
}

func waitWord() argument {
	return argument{name: "wait", kind: "string", token: "WAIT", optional: true}
}

// The limiter's own commands: a limit is given at every call, in its one spelling.
func takeCommands() []command {
	cost := costWord()
	return []command{
		{
			name: "RL.TAKE", example: "RL.TAKE user:17 GCRA 100/m", arity: -4, flags: flagWrite | flagFast | flagBlocking | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Takes from a limit, or waits for it, or is denied.",
			args:    limitOf(cost, waitWord(), argument{name: "partial", kind: "pure-token", token: "PARTIAL", optional: true}),
			run:     (*session).rlTake,
		},
		{
			name: "RL.PEEK", example: "RL.PEEK user:17 GCRA 100/m", arity: -4, flags: flagReadonly | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Answers as RL.TAKE would and changes nothing.",
			args:    limitOf(cost),
			run:     (*session).rlPeek,
		},
		{
			name: "RL.REFUND", example: "RL.REFUND user:17 GCRA 100/m", arity: -4, flags: flagWrite | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Gives back what was taken, never above full.",
			args:    limitOf(cost),
			run:     (*session).rlRefund,
		},
		{
			name: "RL.RESERVE", example: "RL.RESERVE user:17 GCRA 100/m", arity: -4, flags: flagWrite | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Takes now and pays later: grants more than there is, and tells how long to wait.",
			args:    limitOf(cost, argument{name: "maxwait", kind: "string", token: "MAXWAIT", optional: true}),
			run:     (*session).rlReserve,
		},
		{
			name: "RL.RESET", example: "RL.RESET user:17", arity: -2, flags: flagWrite | flagFast | flagWide, firstKey: 1, lastKey: -1, step: 1, keyFlags: []string{"RM", "delete"},
			group: "limiter", since: "1.0.0", complexity: "O(n) for n keys",
			summary: "Forgets keys; replies how many there were.",
			args:    []argument{{name: "key", kind: "key", multiple: true}},
			run:     (*session).del,
		},
		{
			name: "RL.INFO", example: "RL.INFO user:17", arity: 2, flags: flagReadonly | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Tells a key's algorithm, state, level, time to reset and memory, or null.",
			args:    []argument{{name: "key", kind: "key"}},
			run:     (*session).rlInfo,
		},
	}
}

func (s *session) rlTake(args [][]byte) {
	var a limitArgs
	if !s.parseLimit(args[2:], ownCost|ownPartial|ownWait, &a) {
		return
	}
	if a.given&ownWait != 0 {
		s.askFor(args[1], &waiting{Waiter: engine.Waiter{Request: engine.Request{
			Limit: a.limit, Cost: a.cost, Partial: a.given&ownPartial != 0,
		}}}, a.maxWait)
		return
	}
	var d limit.Decision
	if a.given&ownPartial != 0 {
		granted, err := s.srv.engine.TakePartial(s.now, args[1], &a.limit, a.cost, &d)
		s.decidedInPart(args[1], a.limit.Algorithm, &d, granted, err)
		return
	}
	s.decided(args[1], a.limit.Algorithm, &d, s.srv.engine.TakeAt(s.place, s.now, args[1], &a.limit, a.cost, &d))
}

func (s *session) rlPeek(args [][]byte) {
	var a limitArgs
	if !s.parseLimit(args[2:], ownCost, &a) {
		return
	}
	var d limit.Decision
	s.decided(args[1], a.limit.Algorithm, &d, s.srv.engine.Peek(s.now, args[1], &a.limit, a.cost, &d))
}

func (s *session) rlRefund(args [][]byte) {
	var a limitArgs
	if !s.parseLimit(args[2:], ownCost, &a) {
		return
	}
	var d limit.Decision
	s.decided(args[1], a.limit.Algorithm, &d, s.srv.engine.Refund(s.now, args[1], &a.limit, a.cost, &d))
}

func (s *session) rlReserve(args [][]byte) {
	var a limitArgs
	if !s.parseLimit(args[2:], ownCost|ownMaxWait, &a) {
		return
	}
	var d limit.Decision
	err := s.srv.engine.Reserve(s.now, args[1], &a.limit, a.cost, a.maxWait, &d)
	if err == limit.ErrReserve {
		s.fail("ERR " + a.limit.Algorithm.String() + " does not reserve: " + err.Error())
		return
	}
	s.decided(args[1], a.limit.Algorithm, &d, err)
}

// decided replies with a decision on a key, or with the error in its place.
func (s *session) decided(key []byte, a limit.Algorithm, d *limit.Decision, err error) {
	if err != nil {
		s.fail(s.limitErrorOf(err, key, a))
		return
	}
	s.decisionMillis(d)
}

// decidedInPart replies with a decision and how much was granted.
func (s *session) decidedInPart(key []byte, a limit.Algorithm, d *limit.Decision, granted int64, err error) {
	if err != nil {
		s.fail(s.limitErrorOf(err, key, a))
		return
	}
	s.array(6)
	s.fiveMillis(d)
	s.int(granted)
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
	s.text("state")
	s.int(info.Expires)
	s.text("level")
	s.int(info.Level)
	s.text("resets_in")
	s.int(left)
	s.text("memory")
	s.int(info.Bytes)
}
