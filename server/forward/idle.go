package forward

import (
	"slices"
	"sync"
)

// idle holds what nobody uses now, the latest last. Its zero value is ready to use.
type idle[T interface {
	comparable
	Close()
}] struct {
	mu   sync.Mutex
	kept []T // guarded by mu
}

// pop returns the latest that fits, if one does.
func (d *idle[T]) pop(fits func(T) bool) (v T, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, k := range slices.Backward(d.kept) {
		if fits(k) {
			d.kept = slices.Delete(d.kept, i, i+1)
			return k, true
		}
	}
	return v, false
}

// put keeps v, in place of the one that was kept first if there are most.
func (d *idle[T]) put(v T, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) == most {
		d.kept[0].Close()
		d.kept = slices.Delete(d.kept, 0, 1)
	}
	d.kept = append(d.kept, v)
}

// drop forgets v.
func (d *idle[T]) drop(v T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.kept, v); i >= 0 {
		d.kept = slices.Delete(d.kept, i, i+1)
	}
}

// Kept returns how many are idle.
func (d *idle[T]) Kept() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.kept)
}
