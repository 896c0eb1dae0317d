package replication

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"limitdb/internal/disk"
)

// termKey is Raft's key of the term.
const termKey = "CurrentTerm"

// createVotes creates an empty file of votes. A file that is there is whole, because bbolt takes several writes to
// create one.
func createVotes(path string) error {
	tmp := path + tmpSuffix
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	v, _, err := openVotes(tmp, false)
	if err != nil {
		return err
	}
	if err := errors.Join(v.Close(), os.Rename(tmp, path)); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// openVotes opens the file of what Raft must remember besides its log: the term, and for whom the node has voted in it.
// They change only in elections, so it does not matter that bbolt syncs twice for each change. The errors are errLog
// for a damaged file, and those of the system. No other process has the file open, because the log is locked first.
func openVotes(path string, readOnly bool) (v *raftboltdb.BoltStore, term uint64, err error) {
	err = guardBolt(func() (err error) {
		if v, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: 1, ReadOnly: readOnly}}); err != nil {
			return err
		}
		if term, err = v.GetUint64([]byte(termKey)); errors.Is(err, raftboltdb.ErrKeyNotFound) {
			err = nil
		}
		return err
	})
	var system syscall.Errno
	switch {
	case errors.As(err, &system):
		return nil, 0, err
	case err != nil:
		return nil, 0, fmt.Errorf("%w: %s: %w", errLog, path, err)
	}
	return v, term, nil
}

// guardBolt turns a panic of bbolt into an error. bbolt trusts its file, which it reads as memory.
func guardBolt(read func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return read()
}
