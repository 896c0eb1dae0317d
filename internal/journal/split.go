package journal

// Split returns as many records from the start of b as fit into limit bytes, but at least one, and the bytes behind them.
// The Bytes of part are those of b. The errors are those of Parse.
func Split(b []byte, limit int) (part Buffer, rest []byte, err error) {
	n := 0
	for n < len(b) {
		r, rest, err := Parse(b[n:])
		if err != nil {
			return Buffer{}, nil, err
		}
		end := len(b) - len(rest)
		if n > 0 && end > limit {
			break
		}
		n = end
		part.Records++
		if r.Op == Flush {
			part.Flushed = max(part.Flushed, r.Version)
		}
	}
	part.Bytes = b[:n:n]
	return part, b[n:], nil
}
