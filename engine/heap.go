package engine

// heap is a binary heap of items that know their places, so that any of them
// can be moved or taken out: Williams, "Algorithm 232: Heapsort" (1964). The
// zero value is empty.
type heap[T heapItem[T]] []T

type heapItem[T any] interface {
	// before tells whether the item comes before another.
	before(other T) bool
	// setPlace notes where in the heap the item is, −1 for nowhere.
	setPlace(i int)
}

func (h *heap[T]) push(item T) {
	*h = append(*h, item)
	h.up(len(*h) - 1)
}

// fix restores the order after the item at place i has changed.
func (h *heap[T]) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

// remove takes out the item at place i.
func (h *heap[T]) remove(i int) {
	var none T
	items := *h
	last := len(items) - 1
	items[i].setPlace(-1)
	moved := items[last]
	items[last] = none
	*h = items[:last]
	if i < last {
		items[i] = moved
		h.fix(i)
	}
}

// up moves the item at place i to where it belongs among those above it.
func (h *heap[T]) up(i int) {
	items := *h
	item := items[i]
	for i > 0 {
		above := (i - 1) / 2
		if !item.before(items[above]) {
			break
		}
		items[i] = items[above]
		items[i].setPlace(i)
		i = above
	}
	items[i] = item
	item.setPlace(i)
}

// down moves the item at place i to where it belongs among those below it, and
// tells whether it moved. One that does not has its place noted.
func (h *heap[T]) down(i int) bool {
	items := *h
	item, from := items[i], i
	for {
		below := 2*i + 1
		if below >= len(items) {
			break
		}
		if right := below + 1; right < len(items) && items[right].before(items[below]) {
			below = right
		}
		if !items[below].before(item) {
			break
		}
		items[i] = items[below]
		items[i].setPlace(i)
		i = below
	}
	items[i] = item
	item.setPlace(i)
	return i > from
}
