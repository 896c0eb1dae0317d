//go:build !nextformat

package replication

// Format is the newest format of entries and snapshots that this version reads. It writes it when all members read it.
const Format = formatParts

// nextExtra is what only the build with the tag nextformat has.
const nextExtra = 0
