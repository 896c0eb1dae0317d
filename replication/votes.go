package replication

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"limitdb/internal/disk"
)

// termKey is Raft's key of the term.
const termKey = "CurrentTerm"

// votes is what Raft must remember besides its log: the term, and for whom the node has voted in it. All of it is one
// record, in a bbolt file of raft-boltdb, so that none of it can be lost alone: a lost vote is one that is given twice.
//
// They change only in elections, so it does not matter that bbolt syncs twice for each change.
type votes struct {
	store *raftboltdb.BoltStore // nil if they cannot be changed

	mu     sync.Mutex
	ballot ballot
}

// ballot is the record.
type ballot struct {
	Node   string            // the incarnation of the node
	Number uint64            // of the changes
	Values map[string][]byte // of Raft, by its keys
}

const (
	ballotKind = "vote"
	ballotKey  = "votes" // in bbolt
	// roomKey has roomBytes of zeros. bbolt keeps less than a quarter of a page inside of another page, reads it from a copy in
	// memory, and reads beyond that if a length in the file is wrong. What it finds there is a matter of chance.
	roomKey   = "room"
	roomBytes = 1 << 10
	// mapBytes is how much address space bbolt takes to read the file. A page has a place and two lengths of 32 bits each, so what a
	// wrong one leads to is in this space, behind the end of the file, where a read always fails.
	mapBytes = 16 << 30
)

// createVotes makes a file with a ballot, in place of one of the same name. bbolt takes several writes to create a
// file, so this one gets its name when it is whole.
func createVotes(path string, b ballot) (err error) {
	record, err := disk.Seal(ballotKind, b)
	if err != nil {
		return err
	}
	tmp := path + disk.TmpSuffix
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	v, err := raftboltdb.New(raftboltdb.Options{Path: tmp, NoSync: true, BoltOptions: &bbolt.Options{Timeout: 1}})
	if err != nil {
		return err
	}
	if err = v.Set([]byte(roomKey), make([]byte, roomBytes)); err == nil {
		err = v.Set([]byte(ballotKey), record)
	}
	if err == nil {
		err = v.Sync()
	}
	if err = errors.Join(err, v.Close()); err == nil { // else the file before keeps its name
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return err
	}
	return disk.OS{}.SyncDir(filepath.Dir(path))
}

// openVotes opens the votes of a node. It first makes the file anew, so that what bbolt keeps there besides the record
// can have been damaged. No other process has the file open, because the log is locked first. The errors are errFiles
// for a damaged file or that of another node, ErrNewer, and those of the system.
func openVotes(path, node string, readOnly bool) (*votes, error) {
	v := &votes{}
	switch err := v.read(path); {
	case err != nil:
		return nil, ofFile(path, err)
	case v.ballot.Node != node:
		return nil, fmt.Errorf("%w: %s is of another node", errFiles, path)
	case readOnly:
		return v, nil
	}
	if err := createVotes(path, v.ballot); err != nil {
		return nil, err
	}
	var err error
	v.store, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: 1}})
	return v, err
}

// read reads the ballot.
func (v *votes) read(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	err = guardBolt(func() error {
		store, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{
			Timeout: 1, ReadOnly: true, InitialMmapSize: mapBytes,
		}})
		if err != nil {
			return err
		}
		record, err := store.Get([]byte(ballotKey))
		if err == nil {
			err = disk.Unseal(ballotKind, record, &v.ballot)
		}
		return errors.Join(err, store.Close())
	})
	v.adopt(b)
	return err
}

// adopt takes a later ballot that is anywhere in the bytes of the file. There is one if a crash came before bbolt counted
// it, and nobody was told about it; or if a page that leads to it is damaged, where bbolt finds an earlier one.
func (v *votes) adopt(file []byte) {
	for ; len(file) > 0; file = file[1:] {
		at := bytes.Index(file, []byte(disk.RecordMagic))
		if at < 0 {
			return
		}
		file = file[at:]
		var other ballot
		if disk.Unseal(ballotKind, disk.FirstRecord(file), &other) == nil && other.Number > v.ballot.Number && other.Node == v.ballot.Node {
			v.ballot = other
		}
	}
}

// term returns Raft's term, 0 before the first.
func (v *votes) term() uint64 {
	term, _ := v.GetUint64([]byte(termKey))
	return term
}

// Get returns a value, and raftboltdb.ErrKeyNotFound for one that was never set.
func (v *votes) Get(key []byte) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if value, ok := v.ballot.Values[string(key)]; ok {
		return value, nil
	}
	return nil, raftboltdb.ErrKeyNotFound
}

// GetUint64 returns a number.
func (v *votes) GetUint64(key []byte) (uint64, error) {
	value, err := v.Get(key)
	if err == nil && len(value) != 8 {
		err = fmt.Errorf("replication: %q is no number", key)
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// Set makes a value durable.
func (v *votes) Set(key, value []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := ballot{Node: v.ballot.Node, Number: v.ballot.Number + 1, Values: map[string][]byte{}}
	maps.Copy(b.Values, v.ballot.Values)
	b.Values[string(key)] = append([]byte{}, value...)
	record, err := disk.Seal(ballotKind, b)
	if err != nil {
		return err
	}
	if err := v.store.Set([]byte(ballotKey), record); err != nil {
		return err
	}
	v.ballot = b
	return nil
}

// SetUint64 makes a number durable.
func (v *votes) SetUint64(key []byte, value uint64) error {
	return v.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// Close closes the file.
func (v *votes) Close() error {
	if v.store == nil {
		return nil
	}
	return v.store.Close()
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
