package wait

// heap is a binary heap of items that know their positions, so that any of them
// can be moved or removed. Source: Williams, "Algorithm 232: Heapsort" (1964).
// container/heap swaps items, which takes an eighth longer with 100 000 queues.
// The zero value is empty.
type heap[T heapItem[T]] []T

type heapItem[T any] interface {
	// before reports whether the item comes before other.
	before(other T) bool
	// setIndex records the item's index in the heap, −1 for none.
	setIndex(i int)
}

func (h *heap[T]) push(item T) {
	*h = append(*h, item)
	h.up(len(*h) - 1)
}

// fix restores the order after the item at index i has changed.
func (h *heap[T]) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

// remove removes the item at index i.
func (h *heap[T]) remove(i int) {
	var none T
	items := *h
	last := len(items) - 1
	items[i].setIndex(-1)
	moved := items[last]
	items[last] = none
	*h = items[:last]
	if i < last {
		items[i] = moved
		h.fix(i)
	}
}

// up moves the item at index i up to where it belongs.
func (h *heap[T]) up(i int) {
	items := *h
	item := items[i]
	for i > 0 {
		above := (i - 1) / 2
		if !item.before(items[above]) {
			break
		}
		items[i] = items[above]
		items[i].setIndex(i)
		i = above
	}
	items[i] = item
	item.setIndex(i)
}

// down moves the item at index i down to where it belongs and reports whether
// it moved. It records the item's index even if it did not move.
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
		items[i].setIndex(i)
		i = below
	}
	items[i] = item
	item.setIndex(i)
	return i > from
}
