package crossing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/request"
)

// What two nodes say to one another about a part. The words of a call are
//
//	call, 1 byte; how, 1 byte; flags, 1 byte: countsDenied, peeksFirst; and the id, or of handler.Releases that of the leases
//	then for each limit its key, and: flags, 1 byte: isSoft, isLease; the cost, uvarint; and the limit as limit.Pack has it,
//	but of a lease its limit, its TTL in ns and its weight as uvarints, and of a key with leases that are given back nothing
//
// The reply is a string:
//
//	the outcome, 1 byte; the number of leases that were given back, uvarint; then, of what was granted or denied, as often as there are limits,
//	flags, 1 byte: isLimited, and the number of the block's outcome; the limit, what is left, the wait and the reset, varints; and the same for what
//	there was before, if that is known. Of what has failed, the number of the limit at fault, 1 or more, uvarint; 0 for none; and the error's text
//
// Any other reply says nothing about what was done.

const (
	countsDenied byte = 1 << iota
	peeksFirst
)

const (
	isSoft byte = 1 << iota
	isLease
)

const (
	isLimited  byte = 1
	blockShift int  = 1
)

const crlf = "\r\n"

// mostText is the most bytes of an error's text.
const mostText = 4 << 10

var errBytes = errors.New("crossing: bytes that no node of this version sends")

// ask returns the words of a call.
func (p *part) ask(call across.Call) (words [][]byte) {
	head := []byte{byte(call), byte(p.each.How), 0}
	if p.r.CountDenied {
		head[2] |= countsDenied
	}
	id := p.hold.ID
	switch {
	case p.each.How == handler.Releases:
		id = p.each.ID
	case p.each.How == handler.Singly && p.r.Free != nil:
		head[2] |= peeksFirst
	}
	words = append(words, append(head, id...))
	for i, key := range p.r.Keys {
		flags, lease := byte(0), p.r.Leases[i]
		if p.r.Soft[i] {
			flags |= isSoft
		}
		if lease != nil {
			flags |= isLease
		}
		b := binary.AppendUvarint([]byte{flags}, uint64(p.r.Costs[i]))
		switch {
		case lease != nil:
			for _, n := range [...]int64{lease.Limit, lease.TTL, lease.Weight} {
				b = binary.AppendUvarint(b, uint64(n))
			}
		case p.each.How != handler.Releases:
			b = limit.Pack(b, &p.r.Limits[i])
		}
		words = append(words, key, b)
	}
	return words
}

// A Part is what another node asks a group for.
type Part struct {
	part
	call across.Call
}

// Keys returns the keys of the part's limits, one or more.
func (p *Part) Keys() [][]byte { return p.r.Keys }

// GivesBack reports whether the call is to give back what was taken.
func (p *Part) GivesBack() bool { return p.call == across.GiveBack }

// Lasts reports whether the answer must be durable whatever the settings say: what it tells of is taken, or given back.
func (p *Part) Lasts() bool { return p.call != across.Look }

// Parse reads the words of a call, which it keeps. The error is one of package limit, or about bytes that no node sends.
func Parse(words [][]byte, zones *limit.Zones) (*Part, error) {
	if len(words) < 3 || len(words)%2 == 0 || len(words[0]) < 3 {
		return nil, errBytes
	}
	head, id := words[0][:3], words[0][3:]
	p := &Part{call: across.Call(head[0])}
	p.each.How = handler.How(head[1])
	each := p.each.How != handler.All
	switch {
	case p.call > across.GiveBack, !p.each.How.Valid(), head[2] > countsDenied|peeksFirst, len(id) > limit.MaxLeaseID,
		each && p.call != across.Take, p.each.How != handler.Singly && head[2]&peeksFirst != 0, len(id) == 0:
		return nil, errBytes
	}
	p.r.CountDenied, p.each.ID = head[2]&countsDenied != 0, id
	for words = words[1:]; len(words) > 0; words = words[2:] {
		if err := p.parseLimit(words[0], words[1], id, zones); err != nil {
			return nil, err
		}
	}
	if p.named(id); head[2]&peeksFirst != 0 {
		p.r.Free = make([]limit.Decision, len(p.r.Keys))
	}
	return p, nil
}

// parseLimit reads what is asked of a key.
func (p *Part) parseLimit(key, b, id []byte, zones *limit.Zones) error {
	if len(key) == 0 || len(b) == 0 || b[0] > isSoft|isLease {
		return errBytes
	}
	flags, b := b[0], b[1:]
	var l limit.Limit
	var lease *limit.Lease
	cost, b, ok := cut(b)
	switch {
	case !ok:
		return errBytes
	case flags&isLease != 0:
		lease = &limit.Lease{ID: id}
		for _, field := range [...]*int64{&lease.Limit, &lease.TTL, &lease.Weight} {
			if *field, b, ok = cut(b); !ok {
				return errBytes
			}
		}
		if len(b) > 0 {
			return errBytes
		}
		if err := lease.Validate(); err != nil {
			return err
		}
	case p.each.How == handler.Releases:
		if len(b) > 0 {
			return errBytes
		}
	default:
		if err := limit.Unpack(b, zones, &l); err != nil {
			return err
		}
	}
	p.add(key, &l, cost, flags&isSoft != 0, lease)
	return nil
}

// cut takes a number off the beginning of b.
func cut(b []byte) (n int64, rest []byte, ok bool) {
	u, size := binary.Uvarint(b)
	if size <= 0 || u > math.MaxInt64 {
		return 0, nil, false
	}
	return int64(u), b[size:], true
}

// Append has a group, which this node leads, carry out the call, and appends the reply. textOf returns the text of an error about a key; nil for none.
// begun is false if the group's engine is closed: nothing was done.
func (p *Part) Append(b []byte, g *group.Group, textOf func(err error, key []byte, l *limit.Limit) string) (out []byte, begun bool) {
	p.g = g
	a := p.carriesOut(p.call)
	if a.Outcome == across.Leaderless {
		return b, false
	}
	if a.Outcome != across.Failed {
		return resp.AppendBulk(b, p.encode(&a)), true
	}
	if a.at >= 0 {
		return AppendFailed(b, a.at, textOf(a.Err, p.r.Keys[a.at], &p.r.Limits[a.at])), true
	}
	return AppendFailed(b, -1, textOf(a.Err, nil, nil)), true
}

// AppendFailed appends the reply that the part has failed, for an error about the limit at an index, -1 for none.
func AppendFailed(b []byte, at int, text string) []byte {
	out := binary.AppendUvarint([]byte{byte(across.Failed), 0}, uint64(at+1))
	return resp.AppendBulk(b, append(out, text[:min(len(text), mostText)]...))
}

// encode returns the reply for what was granted or denied.
func (p *part) encode(a *answer) []byte {
	out := binary.AppendUvarint([]byte{byte(a.Outcome)}, uint64(a.sum))
	for n, rows := range [...][]limit.Decision{a.Rows, a.Free} {
		for i := range rows {
			d, flags := &rows[i], byte(0)
			if d.Limited {
				flags |= isLimited
			}
			if n == 0 && a.blocks != nil {
				flags |= byte(a.blocks[i]) << blockShift
			}
			out = append(out, flags)
			for _, v := range [...]int64{d.Limit, d.Remaining, d.Wait, d.Reset} {
				out = binary.AppendVarint(out, v)
			}
		}
	}
	return out
}

// reads reads the reply to a call. Any goroutine may call it.
func (p *part) reads(call across.Call, reply []byte, refused bool) answer {
	if refused {
		return failed(engine.ErrClosed, -1)
	}
	if a, ok := p.decode(call, reply); ok {
		return a
	}
	return answer{Answer: across.Answer{Outcome: across.Unknown}, at: -1}
}

// decode is reads for a reply that came.
func (p *part) decode(call across.Call, reply []byte) (a answer, ok bool) {
	b, ok := bulkOf(reply)
	if !ok || len(b) == 0 {
		return a, false
	}
	n := int64(len(p.r.Keys))
	a.at, a.Outcome = -1, across.Outcome(b[0])
	if a.sum, b, ok = cut(b[1:]); !ok || a.sum > n {
		return a, false
	}
	switch {
	case a.Outcome == across.Failed:
		at, text, ok := cut(b)
		a.at, a.Err = int(at)-1, request.Told(text)
		return a, ok && at <= n
	case call == across.GiveBack:
		return a, a.Outcome == across.Granted && len(b) == 0
	case a.Outcome == across.Granted, a.Outcome == across.Denied && (p.each.How == handler.All || p.each.How == handler.Whole):
	default:
		return a, false
	}
	a.blocks = make([]engine.BlockOutcome, n)
	if a.Rows, b, ok = p.decodeRows(b, a.blocks); !ok {
		return a, false
	}
	if call == across.Look && a.Outcome == across.Granted || p.each.How == handler.Singly && p.r.Free != nil {
		a.Free, b, ok = p.decodeRows(b, nil)
	}
	return a, ok && len(b) == 0
}

// bulkOf returns what a reply has that is a string.
func bulkOf(reply []byte) (b []byte, ok bool) {
	if len(reply) == 0 || reply[0] != '$' {
		return nil, false
	}
	size, b, ok := bytes.Cut(reply[1:], []byte(crlf))
	n, number := resp.ParseInt(size)
	if !ok || !number || n < 0 || int64(len(b)) != n+int64(len(crlf)) {
		return nil, false
	}
	return b[:n], true
}

// decodeRows reads one decision for each limit, and what blocks had to do with it.
func (p *part) decodeRows(b []byte, blocks []engine.BlockOutcome) (rows []limit.Decision, rest []byte, ok bool) {
	rows = make([]limit.Decision, len(p.r.Keys))
	for i := range rows {
		if len(b) == 0 {
			return nil, nil, false
		}
		d, block := &rows[i], engine.BlockOutcome(b[0]>>blockShift)
		if d.Limited = b[0]&isLimited != 0; block > engine.BlockBegun {
			return nil, nil, false
		}
		if blocks != nil {
			blocks[i] = block
		}
		b = b[1:]
		for _, field := range [...]*int64{&d.Limit, &d.Remaining, &d.Wait, &d.Reset} {
			v, size := binary.Varint(b)
			if size <= 0 {
				return nil, nil, false
			}
			*field, b = v, b[size:]
		}
		if d.Limit < 0 || d.Remaining < 0 || d.Wait < limit.Never {
			return nil, nil, false
		}
	}
	return rows, b, true
}
