package groups

import "limitdb/resp"

// Most is the largest number of groups that have keys.
const Most = 64

// ValidCount reports whether a cluster may have n groups with keys: a power of two from 1 to Most.
func ValidCount(n int) bool { return n >= 1 && n <= Most && n&(n-1) == 0 }

// Of returns the group that has the keys of a slot, from 1 to n, in a cluster of n groups. resp.Slot has the slot of a
// key. Both are arithmetic: there is no map that could be out of date.
func Of(slot, n int) int { return 1 + slot*n/resp.Slots }

// Slots returns the first and the last slot of a group, from 1 to n, in a cluster of n groups.
func Slots(group, n int) (first, last int) {
	size := resp.Slots / n
	return (group - 1) * size, group*size - 1
}
