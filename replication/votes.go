package replication

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// lockTimeout is how long to wait for another process that holds the file of votes. There is none, because the log is
// locked first.
const lockTimeout = time.Second

// openVotes opens the file of what Raft must remember besides its log: the term, and for whom the node has voted in it.
// They change only in elections, so it does not matter that bbolt syncs twice for each change. The error is errLog.
func openVotes(path string, readOnly bool) (v *raftboltdb.BoltStore, term uint64, err error) {
	err = guardBolt(func() (err error) {
		if v, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: lockTimeout, ReadOnly: readOnly}}); err != nil {
			return err
		}
		if term, err = v.GetUint64([]byte("CurrentTerm")); errors.Is(err, raftboltdb.ErrKeyNotFound) {
			err = nil
		}
		return err
	})
	if err != nil {
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
