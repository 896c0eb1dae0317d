package resp

// Ahead sets keys to argument i of the commands behind the one that Next has just returned, and returns how many there
// are: those that lie whole in the buffer, and begin with the same bytes as that command up to the argument. It reads
// nothing. The keys are valid until Keep.
func (r *Reader) Ahead(i int, keys [][]byte) (n int) {
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
	head, b := cmd[:at], r.buf[r.start:]
	for ; n < len(keys) && len(b) > at && string(b[:at]) == string(head); n++ {
		key, end := argument(b, at)
		for k := i + 1; k < count && end > 0; k++ {
			_, end = argument(b, end)
		}
		if end == 0 {
			break
		}
		keys[n], b = key, b[end:]
	}
	return n
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
	return b[from : from+n : from+n], from + n + 2
}
