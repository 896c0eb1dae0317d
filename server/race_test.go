//go:build race

package server

// raceDetector: with it, sync.Pool drops some items.
const raceDetector = true
