package transport

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// The queue behaves like a plain buffer and keeps its promise about memory.
func TestQueueIsABuffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var bufs buffers
		var model bytes.Buffer
		next := byte(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				p := make([]byte, rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(0, 200_000)).Draw(t, "length"))
				for i := range p {
					p[i] = next
					next++
				}
				q.push(&bufs, p)
				model.Write(p)
				clear(p) // the queue keeps a copy
			} else if head := q.head(); len(head) > 0 {
				n := rapid.IntRange(0, len(head)).Draw(t, "pop")
				if !bytes.Equal(head[:n], model.Next(n)) {
					t.Fatal("other bytes come out than went in")
				}
				q.pop(&bufs, n)
			}
			if q.size != model.Len() {
				t.Fatalf("size is %d, want %d", q.size, model.Len())
			}
			if (len(q.head()) == 0) != (q.size == 0) {
				t.Fatalf("head has %d bytes of %d", len(q.head()), q.size)
			}
			chunks, memory := 0, 0
			for c := q.first; c != nil; c = c.next {
				chunks++
				memory += len(c.buf)
			}
			if q.chunks != chunks || q.memory != memory {
				t.Fatalf("%d chunks of %d bytes are counted, want %d of %d", q.chunks, q.memory, chunks, memory)
			}
			if q.size == 0 && q.first != nil {
				t.Fatal("an empty queue holds memory")
			}
		}
		q.clear(&bufs)
		if q.size|q.chunks|q.memory != 0 || q.first != nil || q.last != nil {
			t.Fatal("clear leaves something")
		}
	})
}

// Memory is proportional to the bytes, even if they come in small pieces.
func TestQueueMemory(t *testing.T) {
	for _, piece := range []int{1, 10, 1000, 5000, 70_000} {
		var q queue
		var bufs buffers
		for q.size < 300_000 {
			q.push(&bufs, make([]byte, piece))
			held := 0
			for c := q.first; c != nil; c = c.next {
				held += len(c.buf)
			}
			if held > 2*q.size+1<<minChunk {
				t.Fatalf("pieces of %d: %d bytes are held for %d", piece, held, q.size)
			}
		}
	}
}
