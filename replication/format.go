//go:build !nextformat

package replication

// Format is the newest format of entries and snapshots that this version reads. This version writes it once all
// members read it.
const Format = formatParts

// nextExtra is 0 but in a build with the tag nextformat.
const nextExtra = 0
