package engine

import "limitdb/limit"

// AssumeUsedUp has every key that is not there, or comes back, count as one of which
// all that could be taken was taken at a time: after a crash that may have lost
// the last changes of some keys, nobody knows which, no limit is exceeded then,
// however many they were. It costs a new key a second decision.
func (e *Engine) AssumeUsedUp(at int64) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.usedUp = at
		s.mu.Unlock()
	}
}

// emptied is the state of a key of which all was taken at usedUp. Once that
// does not matter any more, the state says no more than none does.
func (s *shard) emptied(l *limit.Limit) ([]byte, error) {
	var d limit.Decision
	if err := limit.Peek(l, nil, s.usedUp, 0, &d); err != nil || d.Remaining <= 0 {
		return nil, err
	}
	return limit.Take(l, nil, s.usedUp, d.Remaining, s.next[:0], &d)
}
