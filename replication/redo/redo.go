package redo

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"

	"limitdb/internal/disk"
)

const (
	// Dir is the name of the redo log's directory. The files that the log is about are in directories beside it.
	Dir = "redo"
	// FileBytes is the length at which a file of the redo log is full, where nothing else is wanted.
	FileBytes = 32 << 20
	// behind is how many times that the file may have while the files of the one before are being synced. Then writes wait.
	behind = 4
	// keepBytes is the size up to which the buffer of a batch is kept for the next.
	keepBytes = 2 << 20
)

// Log is a redo log. All methods may be called from several goroutines.
type Log struct {
	fs   disk.FS
	dir  string
	lock io.Closer
	full int64
	// apart runs a function beside the caller.
	apart func(func())

	// writing is held while a batch is written. It guards the fields below.
	writing sync.Mutex
	file    *disk.Appender
	name    string // of the file
	number  uint64
	seed    uint32
	batches uint64 // in the file
	out     []byte
	zeros   []byte
	dirty   map[*Target]struct{} // what the file is about
	synced  chan struct{}        // closed when the targets of the file before are synced, and it is removed

	mu    sync.Mutex
	batch *batch // which is being filled, nil for none
	err   error  // the first error: nothing is durable from then on
}

// batch is what becomes durable with one sync.
type batch struct {
	frames  []frame
	targets []*Target
	done    chan struct{}
	err     error // set before done is closed
}

// Target is a file whose writes the redo log makes durable.
type Target struct {
	log       *Log
	dir, head string
	mu        sync.Mutex // held while the file is synced
	f         disk.File  // nil when it is to be synced no more
}

// Open opens the redo log in a directory, whose files are full at a length in bytes, and creates the directory if it is missing. What a crash has left there is done again first, and is durable
// then. No file that the log is about may be open. The errors are disk.ErrLocked, ErrDamaged and ErrNewer.
func Open(fsys disk.FS, dir string, full int64) (*Log, error) {
	l := &Log{fs: fsys, dir: dir, full: full, apart: func(f func()) { go f() }}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Log) open() (err error) {
	if err := disk.MakeDir(l.fs, l.dir); err != nil {
		return err
	}
	if err := l.fs.SyncDir(filepath.Dir(l.dir)); err != nil {
		return err
	}
	if l.lock, err = l.fs.Lock(l.dir, false); err != nil {
		return err
	}
	l.zeros = make([]byte, min(disk.AheadBytes, l.full))
	if err = repair(l.fs, l.dir); err == nil {
		err = l.begin()
	}
	if err != nil {
		return errors.Join(err, l.lock.Close())
	}
	return nil
}

// Target returns the file f in a directory, which begins with head: see the package. Call Done before f is closed.
func (l *Log) Target(f disk.File, dir string, head []byte) (*Target, error) {
	dir, err := filepath.Rel(filepath.Dir(l.dir), dir)
	if err == nil && (len(dir) > 255 || len(head) > 255) {
		err = fmt.Errorf("redo: %s is too long a name", dir)
	}
	return &Target{log: l, dir: filepath.ToSlash(dir), head: string(head), f: f}, err
}

// Wrote makes durable what was written to the file at an offset. It returns when that is so. A target is for one writer at a time.
func (t *Target) Wrote(off int64, data []byte) error { return t.log.commit(t, actWrite, off, data) }

// Cuts makes durable that the file is cut off at an offset, which the caller does next, durably.
func (t *Target) Cuts(off int64) error { return t.log.commit(t, actCut, off, nil) }

// Sync makes the file itself durable. After an error, only the redo log has what was not durable before. So its files stay for the next start.
func (t *Target) Sync() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.f == nil {
		return nil
	}
	err := t.f.Sync()
	if err != nil {
		t.log.fail(err)
	}
	return err
}

// Done says that the file is to be synced no more: it is synced, or removed.
func (t *Target) Done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.f = nil
}

// commit puts a frame into the batch that is being filled. Whoever begins a batch writes it, after the one before, and all others wait until it is written.
func (l *Log) commit(t *Target, what action, off int64, data []byte) error {
	l.mu.Lock()
	b := l.batch
	first := b == nil
	if first {
		b = &batch{done: make(chan struct{})}
		l.batch = b
	}
	b.frames = append(b.frames, frame{action: what, dir: t.dir, head: t.head, off: off, data: data})
	b.targets = append(b.targets, t)
	l.mu.Unlock()
	if !first {
		<-b.done
		return b.err
	}
	l.writing.Lock()
	l.gather(b)
	l.mu.Lock()
	l.batch = nil
	b.err = l.err
	l.mu.Unlock()
	if b.err == nil {
		if b.err = l.write(b); b.err != nil {
			l.fail(b.err)
		}
	}
	l.writing.Unlock()
	close(b.done)
	return b.err
}

// gather lets those join a batch who are about to begin one: groups whose rounds begin together, or whose entries came together. One sync is
// then enough for all of them.
func (l *Log) gather(b *batch) {
	for n, before := 1, 0; n > before; {
		runtime.Gosched()
		before = n
		l.mu.Lock()
		n = len(b.frames)
		l.mu.Unlock()
	}
}

// fail notes an error, after which nothing becomes durable.
func (l *Log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf("redo log: %w", err)
	}
}

// failed returns the first error.
func (l *Log) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// write makes a batch durable.
func (l *Log) write(b *batch) error {
	l.batches++
	out := l.out[:0]
	for i := range b.frames {
		b.frames[i].batch, b.frames[i].ends = l.batches, i == len(b.frames)-1
		out = b.frames[i].append(out, l.seed)
	}
	if l.out = out; cap(out) > keepBytes {
		l.out = nil
	}
	if err := l.file.Append(out, l.zeros); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	for _, t := range b.targets {
		l.dirty[t] = struct{}{}
	}
	if l.file.End < l.full {
		return nil
	}
	return l.turn()
}

// turn begins another file, if the one before is removed, and has what the full one is about synced meanwhile.
func (l *Log) turn() error {
	if l.synced != nil && l.file.End < behind*l.full {
		select {
		case <-l.synced:
		default:
			return nil // later
		}
	}
	l.settled()
	file, name, dirty, synced := l.file, l.name, l.dirty, make(chan struct{})
	if err := l.begin(); err != nil {
		return err
	}
	l.synced = synced
	l.apart(func() {
		defer close(synced)
		if err := l.retire(file, name, dirty); err != nil {
			l.fail(err)
		}
	})
	return nil
}

// settled waits until the file before is removed.
func (l *Log) settled() {
	if l.synced != nil {
		<-l.synced
	}
}

// retire syncs what a file of the redo log is about, and removes it.
func (l *Log) retire(file *disk.Appender, name string, dirty map[*Target]struct{}) error {
	for t := range dirty {
		if err := t.Sync(); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if err := l.failed(); err != nil { // a sync of such a file, before these: the system tells that once
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := l.fs.Remove(name); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// begin begins the next file of the redo log.
func (l *Log) begin() error {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	seed := binary.LittleEndian.Uint32(random[:])
	name := filepath.Join(l.dir, fmt.Sprintf("%016x%s", l.number+1, fileEnd))
	file, err := disk.CreateAppender(l.fs, name, appendHeader(nil, l.number+1, seed))
	if err != nil {
		return err
	}
	l.file, l.name, l.number, l.seed = file, name, l.number+1, seed
	l.batches, l.dirty = 0, map[*Target]struct{}{}
	return nil
}

// Close syncs what the log is about, and removes its files. What they are about may be closed already.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.settled()
	err := l.failed()
	if err != nil { // the files stay for the next start
		err = l.file.Close()
	} else {
		err = l.retire(l.file, l.name, l.dirty)
	}
	return errors.Join(err, l.lock.Close())
}
