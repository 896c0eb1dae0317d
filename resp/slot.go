package resp

import "bytes"

// Slots is the number of hash slots of a cluster.
const Slots = 16384

// Slot returns the hash slot of a key, from 0 to Slots−1, as in the Redis Cluster specification: the CRC-16/XMODEM of
// the key or, if its first { and the next } enclose at least one byte, of the bytes between them.
func Slot(key []byte) int {
	if i := bytes.IndexByte(key, '{'); i >= 0 {
		if n := bytes.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	return int(crc16(key)) % Slots
}

// crc16 returns the CRC-16/XMODEM of b. A byte at a time, each step waits for the one before; crcTables takes eight or four at once.
func crc16(b []byte) (crc uint16) {
	t := &crcTables
	for ; len(b) >= 8; b = b[8:] {
		crc = t[7][byte(crc>>8)^b[0]] ^ t[6][byte(crc)^b[1]] ^ t[5][b[2]] ^ t[4][b[3]] ^ t[3][b[4]] ^ t[2][b[5]] ^ t[1][b[6]] ^ t[0][b[7]]
	}
	if len(b) >= 4 {
		crc = t[3][byte(crc>>8)^b[0]] ^ t[2][byte(crc)^b[1]] ^ t[1][b[2]] ^ t[0][b[3]]
		b = b[4:]
	}
	for _, c := range b {
		crc = crc<<8 ^ t[0][byte(crc>>8)^c]
	}
	return crc
}

// crcTables has the CRC-16/XMODEM of every byte that i zero bytes follow, for each i.
var crcTables = func() (t [8][256]uint16) {
	for b := range t[0] {
		crc := uint16(b) << 8
		for range 8 {
			crc = crc<<1 ^ crc>>15*0x1021
		}
		t[0][b] = crc
	}
	for i := 1; i < len(t); i++ {
		for b, crc := range t[i-1] {
			t[i][b] = crc<<8 ^ t[0][crc>>8]
		}
	}
	return t
}()
