package simulate

import "container/heap"

// pending is what is to be done at some time: the first first and, of one time, in the order of their numbers.
type pending[T any] struct{ list []pendingAt[T] }

type pendingAt[T any] struct {
	at   int64
	seq  uint64
	what T
}

// add adds what is to be done at a time.
func (p *pending[T]) add(at int64, seq uint64, what T) { heap.Push(p, pendingAt[T]{at, seq, what}) }

// next takes the first that is due at now. It is false if nothing is.
func (p *pending[T]) next(now int64) (what T, ok bool) {
	if len(p.list) == 0 || p.list[0].at > now {
		return what, false
	}
	return heap.Pop(p).(pendingAt[T]).what, true
}

// Len implements heap.Interface.
func (p *pending[T]) Len() int { return len(p.list) }

// Less implements heap.Interface.
func (p *pending[T]) Less(i, j int) bool {
	a, b := &p.list[i], &p.list[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Swap implements heap.Interface.
func (p *pending[T]) Swap(i, j int) { p.list[i], p.list[j] = p.list[j], p.list[i] }

// Push implements heap.Interface.
func (p *pending[T]) Push(x any) { p.list = append(p.list, x.(pendingAt[T])) }

// Pop implements heap.Interface.
func (p *pending[T]) Pop() any {
	last := len(p.list) - 1
	e := p.list[last]
	p.list[last], p.list = pendingAt[T]{}, p.list[:last]
	return e
}
