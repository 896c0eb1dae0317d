//go:build unix

package disk

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks a directory against other processes, until this process ends or the result is closed. Several may hold a
// shared lock at once. It returns ErrLocked if another process has a lock that excludes this one.
func Lock(dir string, shared bool) (io.Closer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	if err := unix.Flock(int(d.Fd()), how|unix.LOCK_NB); err != nil {
		d.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
		}
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return d, nil
}
