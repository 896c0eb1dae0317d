package disk

import "hash/crc32"

// Sum returns the CRC32C of all bytes of some slices, one after the other, that starts from a seed. With a seed of its own
// for each file, bytes of another file that a block of the disk still holds never pass for the file's. Processors have an
// instruction for it.
func Sum(seed uint32, parts ...[]byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // which is made once
	for _, b := range parts {
		seed = crc32.Update(seed, table, b)
	}
	return seed
}
