package persistence

import (
	"errors"
	"fmt"
)

// What can be wrong with a directory at the start. Each needs its owner: the
// store changes nothing.
var (
	// ErrLocked is returned where another process uses the directory.
	ErrLocked = errors.New("persistence: another process uses the directory")
	// ErrNoManifest is returned for a directory that has data but no MANIFEST.
	ErrNoManifest = errors.New("persistence: there is data but no MANIFEST that lists the files that count: " +
		"limitdb check --repair copies all that can be read; or restore a whole backup, never its MANIFEST alone; or move the files away to start empty")
	// ErrFormat is returned for a file of a format that this version does not know.
	ErrFormat = errors.New("persistence: unknown format: the file was written by a newer version")
)

// What a call can have wrong while the store runs.
var (
	// ErrBusy is returned while another snapshot is being written.
	ErrBusy = errors.New("persistence: a snapshot is being written")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("persistence: closed")
	// ErrFailed is returned where the log cannot be written.
	ErrFailed = errors.New("persistence: the log cannot be written")
)

// CorruptError says that a file does not hold what was once written and synced.
type CorruptError struct {
	File   string
	Offset int64 // in bytes, where the damage begins
	Reason string
}

// Error names the place and says what to do.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is corrupt at offset %d: %s (limitdb check reports more, and can repair into a copy)", e.File, e.Offset, e.Reason)
}
