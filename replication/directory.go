package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"limitdb/internal/disk"
	"limitdb/replication/redo"
)

// The node's directory has a file "node", which says whose it is, Raft's log, the index that the log must reach, the
// votes, and the snapshots. "node" is the last that is made, so where it is, the others are.
const (
	nodeFile     = "node"
	logDir       = "log"
	voteFile     = "vote.db"
	snapshotsDir = "snapshots"
)

// errFiles is returned for a directory in which a file is damaged or missing.
var errFiles = errors.New("the node's directory is damaged: remove this node from the cluster, empty its directory, and add it again")

// ofFile returns the error of reading a file: one of the system, ErrNewer, or else errFiles, since the file is damaged
// or missing.
func ofFile(path string, err error) error {
	var system syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is missing", errFiles, path)
	case errors.Is(err, disk.ErrNewer):
		return fmt.Errorf("%w: %s", ErrNewer, path)
	case errors.As(err, &system):
		return err
	}
	return fmt.Errorf("%w: %s: %w", errFiles, path, err)
}

// errShort is the cause of errFiles for a log that has lost entries at its end.
var errShort = errors.New("the log and the snapshots end too early")

// Damaged reports whether an error of Open, Recover or Export says that the directory is damaged, or of a newer version, or from
// the future.
func Damaged(err error) bool {
	for _, damage := range []error{errFiles, errLog, errSnapshot, ErrNewer, ErrClock, redo.ErrDamaged, redo.ErrNewer} {
		if errors.Is(err, damage) {
			return true
		}
	}
	return false
}

// exists reports whether there is a file or a directory of a name.
func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
