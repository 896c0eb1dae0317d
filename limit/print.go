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
