package limit

import "encoding/binary"

// The pace of a bucket is its emission interval E in ns. A state carries the
// pace that its time is measured in, so that a limit which changes can convert
// what is in use. Two bytes hold the usual paces exactly; eight hold any other:
//
//	 15  14    11 10    8  7  6     0
//	┌───┬────────┬────────┬───┬───────┐
//	│ 0 │ power  │  high  │ 0 │  low  │   E = (high, low)·10^power, 10 bits and 4
//	└───┴────────┴────────┴───┴───────┘
//	┌───┬────────────────┬──────┬─────┐
//	│ 1 │ n, 12 bits     │ unit │floor│   E = ⌈unit/n⌉, or ⌊unit/n⌋ with floor;
//	└───┴────────────────┴──────┴─────┘   a unit is a second, minute, hour or day
//
// Both are little-endian. No code has bit 15 clear and bit 7 set.
type paceCode uint16

const (
	// noCode says that the pace has not been encoded yet.
	noCode paceCode = 0
	// rawCode says that the pace has no code: eight bytes, big-endian, hold it.
	rawCode paceCode = codeNone

	codeUnit  paceCode = 1 << 15
	codeNone  paceCode = 1 << 7
	codeFloor paceCode = 1

	codePowers   = 16
	codeMantissa = 1 << 10
	codeNumbers  = 1 << 12

	timeLen   = 8           // bytes of a state that is a time alone
	bucketLen = timeLen + 2 // with the code of its pace
	rawLen    = timeLen + 8 // with a pace that has no code
)

var powersOfTen = [codePowers]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// isNone reports whether c is the code of no pace.
func (c paceCode) isNone() bool { return c&(codeUnit|codeNone) == codeNone }

// is reports whether c is the code of e. It needs no division.
func (c paceCode) is(e int64) bool {
	if c < codeUnit {
		return uint64(c&0x7f|c>>1&0x380)*powersOfTen[c>>11] == uint64(e)
	}
	n, unit := uint64(c>>3&(codeNumbers-1)), uint64(tagUnits[c>>1&3])
	over := uint64(e)*n - unit // of ⌈unit/n⌉·n, below n
	if c&codeFloor != 0 {
		over = -over
	}
	return over < n && uint64(e) <= unit
}

// pace returns the E of a code, 0 if it has none.
func (c paceCode) pace() int64 {
	if c < codeUnit {
		return int64(uint64(c&0x7f|c>>1&0x380) * powersOfTen[c>>11])
	}
	n, unit := int64(c>>3&(codeNumbers-1)), tagUnits[c>>1&3]
	switch {
	case n == 0:
		return 0
	case c&codeFloor != 0:
		return unit / n
	}
	return (unit + n - 1) / n
}

// encodePace returns the code of e, which is 1 or more, or rawCode.
func encodePace(e int64) paceCode {
	m, power := uint64(e), paceCode(0)
	for power < codePowers-1 && m%10 == 0 {
		m /= 10
		power++
	}
	if m < codeMantissa {
		return power<<11 | paceCode(m&0x380)<<1 | paceCode(m&0x7f)
	}
	for i, unit := range tagUnits {
		n := unit / e
		if n == 0 || n >= codeNumbers {
			continue
		}
		rest := unit - n*e
		code := codeUnit | paceCode(i)<<1
		switch up := n + 1; {
		case rest < n: // so unit < n·(e + 1)
			return code | paceCode(n)<<3 | codeFloor
		case e-rest < up && up < codeNumbers:
			return code | paceCode(up)<<3
		}
	}
	return rawCode
}

// codeIn returns the two bytes after the time of a state of bucketLen.
func codeIn(state []byte) paceCode {
	return paceCode(binary.LittleEndian.Uint16(state[timeLen:]))
}

// hasPace reports whether a state, which is not empty, is at pace e. It returns the
// code to write for e, noCode if e has to be encoded. A state that is a time alone
// has the pace of the call.
func hasPace(state []byte, e int64) (code paceCode, same bool) {
	switch len(state) {
	case bucketLen:
		code = codeIn(state)
		if code.isNone() {
			return noCode, false
		}
		return code, code.is(e)
	case rawLen:
		return rawCode, rawPace(state) == e
	}
	return noCode, len(state) <= timeLen
}

// rawPace returns the pace after the time of a state of rawLen, 1 or more.
func rawPace(state []byte) int64 {
	return int64(binary.BigEndian.Uint64(state[timeLen:]))
}

// putBucket writes a state over dst: a time and its pace e.
func putBucket(dst []byte, tat, e int64, code paceCode) []byte {
	if code == noCode {
		code = encodePace(e)
	}
	if code == rawCode {
		var buf [rawLen]byte
		binary.LittleEndian.PutUint64(buf[:], uint64(tat))
		binary.BigEndian.PutUint64(buf[timeLen:], uint64(e))
		return append(dst[:0], buf[:]...)
	}
	if cap(dst) < bucketLen {
		dst = make([]byte, 0, bucketLen)
	}
	dst = dst[:bucketLen]
	binary.LittleEndian.PutUint64(dst, uint64(tat))
	binary.LittleEndian.PutUint16(dst[timeLen:], uint16(code))
	return dst
}

// appendPace appends pace e to b. Its code is noCode if it has to be encoded.
func appendPace(b []byte, e int64, code paceCode) []byte {
	if code == noCode {
		code = encodePace(e)
	}
	if code == rawCode {
		return binary.BigEndian.AppendUint64(b, uint64(e))
	}
	return binary.LittleEndian.AppendUint16(b, uint16(code))
}

// minTerms is the smallest length of a state with the terms of INTERVAL.
const minTerms = timeLen + 8 + 1 + 1
