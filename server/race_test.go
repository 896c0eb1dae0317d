//go:build race

package server

// raceDetector makes sync.Pool forget some of what it is given.
const raceDetector = true
