package group

import "limitdb/internal/journal"

const (
	// DrainBytes is about how many bytes of records are drained before they are passed on. A longer drain continues after
	// that, so memory does not grow with what has changed.
	DrainBytes = 1 << 20
	// keepBuffer is the largest buffer, in bytes, that is kept for the next drain.
	keepBuffer = 2 * DrainBytes
)

// A Drain takes what has changed out of a table. Only the drainer uses it, but for Gate.
type Drain struct {
	// Gate is entered by a step whose changes must be in one cut.
	Gate journal.Gate
	buf  journal.Buffer
}

// Cut calls cut, which sets aside what has changed. All changes of a step that enters the gate are in one cut.
func (d *Drain) Cut(cut func()) {
	d.Gate.Close()
	defer d.Gate.Open()
	cut()
}

// Each passes on what the last cut has set aside, in pieces of about DrainBytes. next fills a buffer behind room bytes, and
// reports whether there may be more; put takes it. An error of either ends it, and Each returns it.
func (d *Drain) Each(room int, next func(dst *journal.Buffer) (more bool, err error), put func(piece *journal.Buffer, more bool) error) (err error) {
	for more := true; more && err == nil; {
		d.buf.Reset(room)
		if more, err = next(&d.buf); err == nil {
			err = put(&d.buf, more)
		}
	}
	if cap(d.buf.Bytes) > keepBuffer {
		d.buf.Bytes = nil
	}
	return err
}
