package limit

import "strconv"

// String is the limit's spelling, which Parse reads back: limit and period in
// one word, the period in the longest unit that divides it, an option only if
// it is not the default.
func (l Limit) String() string {
	b, _ := l.AppendText(nil)
	return string(b)
}

// AppendText appends the limit's spelling to b. The error is always nil.
func (l Limit) AppendText(b []byte) ([]byte, error) {
	b = append(b, l.Algorithm.String()...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, l.Max, 10)
	if l.Calendar != NoUnit {
		b = append(b, " CALENDAR "...)
		b = append(b, l.Calendar.String()...)
	} else {
		b = append(b, '/')
		b = appendPeriod(b, l.Period)
	}
	return l.appendOptions(b), nil
}

// appendOptions appends the options that are not the default.
func (l *Limit) appendOptions(b []byte) []byte {
	for given := l.given(); given != 0; {
		if r := given.next(); r.text != nil {
			b = r.text(b, *l)
		}
	}
	return b
}

// appendPeriod appends a period of ns, as short as can be: one of a unit is the
// unit alone.
func appendPeriod(b []byte, ns int64) []byte {
	if u := unitOf(ns); ns == u.ns {
		return append(b, u.name...)
	}
	return appendTime(b, ns)
}

// appendTime appends a time of ns, as short as can be.
func appendTime(b []byte, ns int64) []byte {
	u := unitOf(ns)
	b = strconv.AppendInt(b, ns/u.ns, 10)
	return append(b, u.name...)
}

// unitOf is the longest unit that divides ns.
func unitOf(ns int64) unit {
	u := units[len(units)-1]
	for _, longer := range units {
		if ns != 0 && ns%longer.ns == 0 {
			u = longer
			break
		}
	}
	return u
}
