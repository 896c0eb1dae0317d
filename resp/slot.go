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
	crc := uint16(0)
	for _, b := range key {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
	}
	return int(crc) % Slots
}
