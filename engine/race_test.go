//go:build race

package engine

// raceDetector reports whether this is a build with the race detector, under which
// sync.Pool forgets some of what it is given.
const raceDetector = true
