//go:build nextformat

package replication

// Format is that of the next version. Only tests of upgrades build this.
const Format = 2

// nextExtra is how many bytes stand before the body of an entry of the next format.
const nextExtra = 8
