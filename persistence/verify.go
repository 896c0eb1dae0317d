package persistence

import (
	"errors"
	"fmt"
	"io"

	"limitdb/internal/disk"
)

// verify reads the batches of the logs and the end of the base: everything that must be known before the
// first record is applied.
func (r *recovery) verify() error {
	if r.base != nil {
		if err := r.verifyBase(); err != nil {
			return err
		}
	}
	var c chunk
	for i, l := range r.logs {
		if r.tail != nil {
			if err := r.behindTail(i, l); err != nil {
				return err
			}
			continue
		}
		if first := r.s.man.logs[i].first; first != 0 {
			if i > 0 && first != r.seq {
				return &CorruptError{l.name, headerSize, fmt.Sprintf("it begins with batch %d where %d is next", first, r.seq)}
			}
			r.seq = first
		}
		l.seq = r.seq
		lacks, err := r.lacksTail(i, l)
		if err != nil {
			return err
		}
		if lacks {
			continue
		}
		r.firsts = append(r.firsts, r.seq)
		bad, err := r.verifyLog(i, l, &c)
		if err != nil {
			return err
		}
		if bad != nil || len(r.group) > 0 {
			if err := r.torn(i, bad); err != nil {
				return err
			}
		}
		r.seq = l.seq
	}
	return r.verifyClean()
}

// verifyLog reads one log to its end, or to where no batch follows.
func (r *recovery) verifyLog(i int, l *reader, c *chunk) (*badBatch, error) {
	for {
		err := l.read(c)
		for j := range c.pieces {
			r.next(i, l, &c.pieces[j])
		}
		var bad *badBatch
		switch {
		case err == io.EOF:
			return nil, nil
		case errors.As(err, &bad):
			return bad, nil
		case err != nil:
			return nil, err
		}
	}
}

func (r *recovery) corrupt(l *reader, bad *badBatch) error {
	return &CorruptError{l.name, bad.off, bad.reason}
}

// next adds a batch of log i to its group, and accepts the group once it is complete.
func (r *recovery) next(i int, l *reader, p *piece) {
	if len(r.group) == 0 {
		r.groupAt = p.off
	}
	r.group = append(r.group, p.batch)
	l.synced = max(l.synced, p.synced)
	if p.flags&flagVouches != 0 {
		r.voucher = i
	}
	if p.flags&flagMore != 0 {
		return
	}
	r.written = i
	for j := range r.group {
		r.note(&r.group[j], l.boot)
	}
	r.group = r.group[:0]
}

// torn decides whether log i ends in a write, or a group of writes, that a crash cut short. bad is the place
// where no batch follows; nil means that the file ends in the middle of a group.
func (r *recovery) torn(i int, bad *badBatch) error {
	l := r.logs[i]
	if bad == nil {
		bad = &badBatch{off: l.size, reason: "a group of batches that is not whole"}
	}
	if bad.whole {
		return r.corrupt(l, bad)
	}
	t, err := l.behind(bad.off+1, bad.off)
	if err != nil {
		return err
	}
	if t.past || t.any && r.sameBoot(l) {
		return r.corrupt(l, bad)
	}
	if len(r.group) > 0 {
		bad = &badBatch{off: r.groupAt, reason: bad.reason}
		l.seq = r.group[0].seq
		r.group = nil
	}
	if r.tailEnd, err = l.dataEnd(bad.off); err != nil {
		return err
	}
	r.tail = bad
	r.written = i
	l.size = bad.off
	return nil
}

// sameBoot reports whether the machine has run without a restart since a log was made. If so, everything
// written to the log is there, synced or not, except perhaps the end of a write that a kill cut short.
func (r *recovery) sameBoot(l *reader) bool { return l.boot != 0 && l.boot == r.s.boot }

// lacksTail reports whether batches before those of log i are missing, because a crash left nothing of the
// end of the log before. r.seq is the sequence number that log i should begin with.
func (r *recovery) lacksTail(i int, l *reader) (bool, error) {
	if i == 0 {
		return false, nil
	}
	_, first, found, err := l.after(headerSize)
	if err != nil || !found || first.seq == r.seq {
		return false, err
	}
	t, err := l.behind(headerSize, l.size)
	if err != nil || t.vouched || r.sameBoot(l) {
		return false, err
	}
	before := r.logs[i-1]
	r.tail = &badBatch{off: before.size, reason: "batches before those of the next log are missing"}
	r.tailEnd, r.written = before.size, i-1
	return true, r.behindTail(i, l)
}

// behindTail examines a log after one with a torn tail. Its batches may have been written before the tail was
// durable; then they are cut off with it. If they cannot have been, the tail is corruption.
func (r *recovery) behindTail(i int, l *reader) error {
	t, err := l.behind(headerSize, l.size)
	if err != nil {
		return err
	}
	if l.size, err = l.dataEnd(headerSize); err != nil {
		return err
	}
	if t.vouched || l.size > headerSize && r.sameBoot(l) {
		return r.corrupt(r.logs[r.written], r.tail)
	}
	if l.size > headerSize {
		r.behind = append(r.behind, i)
	}
	r.firsts = append(r.firsts, 0)
	return nil
}

// verifyBase reads the end of the base.
func (r *recovery) verifyBase() error {
	b := r.base
	at := b.size - batchHeaderSize
	buf := make([]byte, batchHeaderSize)
	if at < headerSize {
		return &CorruptError{b.name, headerSize, "it has no end"}
	}
	if err := disk.ReadFull(b.f, buf, at); err != nil {
		return err
	}
	h, ok := parseBatch(buf, seedOf(b.id))
	if !ok || h.flags != flagEnd || h.length != 0 || h.crc != seedOf(b.id) {
		return &CorruptError{b.name, at, "it has no end"}
	}
	// Do not believe a count that the file has no room for.
	r.expected = min(int64(h.records), b.size/leastRecord)
	r.note(&h, b.boot)
	return nil
}

// verifyClean compares the end of the last file with CLEAN.
func (r *recovery) verifyClean() error {
	c := r.clean
	if c == nil {
		r.Clean = r.Fresh
		return nil
	}
	last := r.base
	if len(r.logs) > 0 {
		// Logs that later starts have made are empty, except for those with a torn tail.
		for _, l := range r.logs {
			if l.id == c.File || l.size > headerSize {
				last = l
			}
		}
	}
	if last != nil && last.id != c.File || last == nil && c.File != 0 {
		return nil // it is from another time, and says nothing
	}
	if last != nil && (last.size != c.Length || r.tail != nil || last.kind == kindLog && last.seq != c.Sequence+1) {
		return &CorruptError{last.name, min(last.size, c.Length), fmt.Sprintf("it was whole when the last run ended, with %d bytes", c.Length)}
	}
	r.Clean = true
	r.note(&batch{clock: c.Clock, boot: c.Elapsed}, c.Boot)
	return nil
}
