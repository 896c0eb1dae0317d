// Package disk has what the log of a standalone server and that of a node need of the system beyond package os.
package disk

import (
	"errors"
	"os"
)

// ErrLocked is returned by Lock if another process uses the directory.
var ErrLocked = errors.New("another process uses the directory")

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
