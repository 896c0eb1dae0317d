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
	b = append(b, '/')
	b = appendPeriod(b, l.Period)
	if l.Burst != l.Max {
		b = append(b, " BURST "...)
		b = strconv.AppendInt(b, l.Burst, 10)
	}
	return b, nil
}

// appendPeriod appends a period of ns, as short as can be.
func appendPeriod(b []byte, ns int64) []byte {
	u := units[len(units)-1]
	for _, longer := range units {
		if ns != 0 && ns%longer.ns == 0 {
			u = longer
			break
		}
	}
	if ns != u.ns {
		b = strconv.AppendInt(b, ns/u.ns, 10)
	}
	return append(b, u.name...)
}
