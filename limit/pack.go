package limit

import "encoding/binary"

// Pack appends l in few bytes, which Unpack reads. They are for states that outlive the
// request that named the limit:
//
//	algorithm, 1 byte; the options that its spelling names, uvarint; Max, uvarint; the tag of
//	its windows (see tag.go); then BURST, WARM, COLD, SEGMENTS, BLOCK and UPTO as uvarints, as
//	far as they are named; and the name of the zone, if there is one, up to the end
func Pack(b []byte, l *Limit) []byte {
	given := l.given()
	b = binary.AppendUvarint(append(b, byte(l.Algorithm)), uint64(given))
	b = binary.AppendUvarint(b, uint64(l.Max))
	b = appendTag(b, windowTag{period: l.Period, unit: l.Calendar})
	for _, n := range l.numbers(given) {
		if n != nil {
			b = binary.AppendUvarint(b, uint64(*n))
		}
	}
	if l.Zone != nil {
		b = append(b, l.Zone.String()...)
	}
	return b
}

// numbers returns the fields of the options that are given and are numbers, nil for the others.
func (l *Limit) numbers(given option) (fields [6]*int64) {
	for i, n := range [...]struct {
		o     option
		field *int64
	}{{optBurst, &l.Burst}, {optWarm, &l.Warm}, {optCold, &l.Cold}, {optSegments, &l.Segments}, {optBlock, &l.Block}, {optUpto, &l.BlockMost}} {
		if given&n.o != 0 {
			fields[i] = n.field
		}
	}
	return fields
}

// Unpack reads a limit that Pack has written. The error is ErrState for other bytes, or one
// of Validate; or ErrZone for a zone that this machine does not know.
func Unpack(b []byte, zones *Zones, l *Limit) error {
	if len(b) == 0 {
		return ErrState
	}
	*l = Limit{Algorithm: Algorithm(b[0])}
	options, n := readCount(b[1:])
	b = b[1+n:]
	most, m := readCount(b)
	b = b[m:]
	tag, k := readTag(b)
	b = b[k:]
	given := option(options)
	if n == 0 || m == 0 || k == 0 || tag.first || int64(given) != options {
		return ErrState
	}
	l.Max, l.Burst, l.Period, l.Calendar = most, most, tag.period, tag.unit
	l.Interval, l.First, l.CountDenied = given&optInterval != 0, given&optFirst != 0, given&optCountDenied != 0
	for _, field := range l.numbers(given) {
		if field == nil {
			continue
		}
		var n int
		if *field, n = readCount(b); n == 0 {
			return ErrState
		}
		b = b[n:]
	}
	if given&optZone != 0 {
		var err error
		if l.Zone, err = zones.Find(b); err != nil {
			return err
		}
	} else if len(b) > 0 {
		return ErrState
	}
	if l.given() != given {
		return ErrState
	}
	return l.Validate()
}
