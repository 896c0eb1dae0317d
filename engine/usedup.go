package engine

import "limitdb/limit"

// AssumeUsedUp makes every key that is absent, or is forgotten later, count as
// if all of its limit had been taken at time at. It is for a restart after a
// crash that may have lost the last changes of unknown keys: no limit is
// exceeded then, however many changes were lost. It costs a new key a second
// decision.
func (e *Engine) AssumeUsedUp(at int64) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.usedUp = at
		s.mu.Unlock()
	}
}

// emptied returns the state of a key from which all was taken at usedUp. Once
// that no longer matters, this state means the same as none.
func (s *shard) emptied(l *limit.Limit) ([]byte, error) {
	var d limit.Decision
	if err := limit.Peek(l, nil, s.usedUp, 0, &d); err != nil || d.Remaining <= 0 {
		return nil, err
	}
	return limit.Take(l, nil, s.usedUp, d.Remaining, s.next[:0], &d)
}
