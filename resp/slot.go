package resp

import "bytes"

// Slots is how many hash slots a cluster has.
const Slots = 16384

// Slot returns the hash slot of a key as the Redis Cluster specification has it: CRC-16/XMODEM of the key, or of what
// stands between its first { and the next }, if that is not empty.
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
