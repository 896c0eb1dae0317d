//go:build !nextformat

package replication

// Format is the newest format of entries and snapshots that this version reads. This version writes it once all
// members read it.
const Format = 1

// nextExtra is 0 but in a build with the tag nextformat.
const nextExtra = 0
