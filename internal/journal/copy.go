package journal

// BlockBytes is about how many bytes of records a snapshot gathers before it writes them.
const BlockBytes = 128 << 10

// Copy passes the states of a table on in blocks, and returns how many records there were. It calls next with one cursor
// after another, beginning with 0, until that returns 0; each call adds records of some states. put gets each block in
// Bytes behind room for the head of a block, and must not keep it. The error is that of put.
func Copy(next func(cursor uint64, dst *Buffer) uint64, room int, put func(block *Buffer) error) (records uint64, err error) {
	var block Buffer
	block.Reset(room)
	for cursor, more := uint64(0), true; more; {
		cursor = next(cursor, &block)
		more = cursor != 0
		if len(block.Bytes) < BlockBytes && more || block.Records == 0 {
			continue
		}
		records += uint64(block.Records)
		if err := put(&block); err != nil {
			return records, err
		}
		block.Reset(room)
	}
	return records, nil
}
