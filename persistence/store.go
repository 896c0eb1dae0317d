package persistence

import (
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"

	"limitdb/internal/disk"
)

// Store keeps the state of its parts in one directory. Its life is Open, Load, Start, and Close or Retire.
//
// Locks, outermost first: files, and then those of the writer.
type Store struct {
	directory
	writer
	o   Options
	log *slog.Logger

	// forced asks for a snapshot even if the logs are small.
	forced  atomic.Bool
	rewrite [2]atomic.Int64 // percent, least bytes

	grown    chan struct{} // a snapshot may be due; with room for one signal
	stop     chan struct{}
	stopOnce sync.Once
	loops    sync.WaitGroup
}

// Open locks the directory and reads its MANIFEST. Load reads and writes the rest. Errors: ErrLocked,
// ErrNoManifest, ErrFormat, *CorruptError, and those of the file system.
func Open(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Entropy == nil {
		o.Entropy = rand.Reader
	}
	if o.Boot == nil {
		o.Boot = func() (uint64, int64) { return 0, 0 }
	}
	if o.Policy == 0 {
		o.Policy = EverySec
	}
	s := newStore(o)
	if s.fs == nil {
		s.fs = disk.OS{}
		if err := s.take(); err != nil {
			return nil, err
		}
	}
	if err := s.readManifest(); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// newStore returns a store that has not looked at its directory.
func newStore(o Options) *Store {
	s := &Store{
		directory: directory{fs: o.FS, dir: o.Dir, log: o.Log, entropy: o.Entropy},
		writer: writer{
			health: health{log: o.Log, refusing: o.Refusing, fatal: o.Fatal, broken: make(chan struct{}, 1)},
			parts:  o.Parts, now: o.Now, machine: o.Boot, kick: make(chan struct{}, 1), dirtied: make(chan struct{}, 1),
		},
		o: o, log: o.Log, grown: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.SetPolicy(o.Policy)
	s.SetRewrite(o.RewritePercent, o.RewriteMin)
	s.SetMaxUnsynced(o.MaxUnsynced)
	return s
}

// SetRewrite changes Options.RewritePercent and Options.RewriteMin.
func (s *Store) SetRewrite(percent, least int64) {
	s.rewrite[0].Store(percent)
	s.rewrite[1].Store(least)
}

// outgrown reports whether a snapshot is due, because the logs have outgrown the base or one was forced. The
// caller holds io.
func (s *Store) outgrown() bool {
	percent, least := s.rewrite[0].Load(), s.rewrite[1].Load()
	logs := s.logBytes.Load()
	if s.forced.Load() {
		return true
	}
	return percent > 0 && s.cur != nil && logs >= least && logs/percent >= s.baseBytes.Load()/100
}

// stopped reports whether the store is closed, or being closed.
func (s *Store) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}
