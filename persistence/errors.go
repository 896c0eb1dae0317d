package persistence

import (
	"errors"
	"fmt"

	"limitdb/internal/disk"
)

// Errors of a directory at the start. The store changes nothing; the operator must act.
var (
	// ErrLocked is returned if another process uses the directory.
	ErrLocked = disk.ErrLocked
	// ErrNoManifest is returned for a directory that has data but no MANIFEST.
	ErrNoManifest = errors.New("persistence: there is data but no MANIFEST that lists the files that count: " +
		"limitdb check --repair copies all that can be read; or restore a whole backup, never its MANIFEST alone; or move the files away to start empty")
	// ErrNoData is returned for a directory that has no data of a server.
	ErrNoData = errors.New("has no data of limitdb: it holds neither a MANIFEST nor a log nor a snapshot")
	// ErrFormat is returned for a file of a format that this version does not know.
	ErrFormat = errors.New("persistence: unknown format: the file was written by a newer version")
)

// Errors of calls while the store runs.
var (
	// ErrBusy is returned while another snapshot is being written.
	ErrBusy = errors.New("persistence: a snapshot is being written")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("persistence: closed")
	// ErrFailed is returned if the log cannot be written.
	ErrFailed = errors.New("persistence: the log cannot be written")

	// errLost is why writers are refused after somebody has removed files: see lookForFiles.
	errLost = errors.New("the data directory, or a file in it, was removed or replaced")
)

// CorruptError reports that a file does not hold what was once written and synced.
type CorruptError struct {
	File   string
	Offset int64 // where the damage begins, in bytes
	Reason string
}

// Error names the place and says what to do.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is corrupt at offset %d: %s (limitdb check reports more, and can repair into a copy)", e.File, e.Offset, e.Reason)
}
