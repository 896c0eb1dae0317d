package resp

// alike is what the next commands have in common with the one that Next has just returned: everything but one
// argument. Their arguments are those of that command but for this one, so Next need not slice them up.
type alike struct {
	left       int // how many they are
	arg        int // the argument in which they differ
	head, tail int // the lengths of what is before it, and behind it
}

// Ahead sets keys to argument i of the commands behind the one that Next has just returned, and returns how many there
// are: those that lie whole in the buffer, and begin with the same bytes as that command up to the argument. It reads
// nothing. The keys are valid until Keep. The caller must not change the arguments that Next has returned.
func (r *Reader) Ahead(i int, keys [][]byte) (n int) {
	r.alike = alike{}
	begin := r.start - r.size
	if begin < 0 || begin == r.start || r.buf[begin] != '*' {
		return 0
	}
	cmd := r.buf[begin:r.start]
	count, at := cutNumber(cmd, 1)
	for range i {
		if _, at = argument(cmd, at); at == 0 {
			return 0
		}
	}
	_, end := argument(cmd, at)
	if end == 0 {
		return 0
	}
	head, tail, b := cmd[:at], cmd[end:], r.buf[r.start:]
	same := 0
	for ; n < len(keys) && len(b) > at && string(b[:at]) == string(head); n++ {
		key, end := argument(b, at)
		size := end + len(tail)
		switch {
		case end == 0 || size > len(b) || string(b[end:size]) != string(tail):
			for k := i + 1; k < count && end > 0; k++ {
				_, end = argument(b, end)
			}
			size = end
		case same == n && len(key) <= r.Limits.Bulk && size <= r.Limits.Query:
			same++
		}
		if end == 0 {
			break
		}
		keys[n], b = key, b[size:]
	}
	r.alike = alike{same, i, len(head), len(tail)}
	return n
}

// nextAlike is Next for a command that is alike.
func (r *Reader) nextAlike() [][]byte {
	a := &r.alike
	a.left--
	key, end := argument(r.buf[r.start:], a.head)
	r.args[a.arg] = key
	r.size = end + a.tail
	r.start += r.size
	return r.args
}

// argument returns the argument whose header is at an offset of b, and the offset behind it; 0 if it is not whole.
func argument(b []byte, at int) (arg []byte, next int) {
	if at == 0 || len(b)-at < len("$0\r\n\r\n") || b[at] != '$' {
		return nil, 0
	}
	n, from := cutNumber(b, at+1)
	if from == 0 || n > len(b)-from-2 {
		return nil, 0
	}
	to := from + n
	if b[to] != '\r' || b[to+1] != '\n' {
		return nil, 0
	}
	return b[from:to:to], to + 2
}
