package persistence

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"

	"limitdb/internal/journal"
)

// Policy says when what was written is made durable.
type Policy uint32

// The policies, as Redis' appendfsync names them.
const (
	// Always: before any reply leaves that has seen it.
	Always Policy = iota + 1
	// EverySec: once a second.
	EverySec
	// Never: when the kernel does it by itself.
	Never
)

// Options configures a Store. Fields whose comment names no default must be set.
type Options struct {
	// Dir is the directory; it is made if its parent is there.
	Dir string
	// FS is where Dir is; nil means the system's, and that Dir is locked.
	FS FS
	// Parts hold the state.
	Parts []Part
	// Policy is the first one; 0 means EverySec. See SetPolicy.
	Policy Policy
	// Now is the clock of decisions, in Unix ns; it never runs backwards.
	Now func() int64
	// Boot returns what names the machine's start, and the time since, in ns: between two
	// runs without a start in between that clock is believed, whatever the wall clock says.
	// nil, or an id of 0, means that nothing is known.
	Boot func() (id uint64, elapsed int64)
	// WallClock starts at the wall clock even if decisions were made later
	// than that: what was owed then is owed from now. See Loaded.Now.
	WallClock bool
	// Recovering is called during Load, before the first Part.Set, with Now
	// and Clean set; nil means that nobody wants to know.
	Recovering func(Loaded)
	// Progress is called during Load with the bytes done and to do; may be nil.
	Progress func(done, total int64)
	// Workers is how many goroutines Load feeds; 0 means 1.
	Workers int
	// RewritePercent and RewriteMin make a snapshot when the logs together have
	// at least RewriteMin bytes, and that percentage of the base; 0 percent
	// means never. See SetRewrite.
	RewritePercent, RewriteMin int64
	// MaxUnsynced is how old a byte may get, in ns, that was written and is not durable, until writers
	// are refused; 0 means 2 s. See SetMaxUnsynced.
	MaxUnsynced int64
	// Refusing is called when writers must be refused, with the reason, and with
	// nil when they need not be any more; nil means that Failing is asked. It must not block.
	Refusing func(error)
	// Fatal is called once when the log cannot be written under Always: nothing
	// that waits is ever released, and the process must end. It must not block.
	Fatal func(error)
	// Log is where news goes; nil means nowhere.
	Log *slog.Logger
	// Entropy makes ids; nil means crypto/rand.
	Entropy io.Reader
}

// Store keeps the state of its parts in one directory. Its life is Open, Load,
// Start, and Close or Retire.
//
// How a change becomes durable: its part appends a record to a buffer under a
// lock of its own. The writer (one goroutine) drains all buffers, writes them
// as one batch, syncs by the policy, publishes how far that is durable, and
// calls those who wait. While it syncs, other changes gather: group commit
// forms by itself.
//
// The numbers of drains say how far. opened is raised before a drain, and durable
// set to that number after the sync. Who finds its part dirty waits for
// opened+1: its change may have missed the drain that is going on. Who finds it
// clean waits for opened only, since all it can have seen was drained.
// The order of the two reads matters: dirty first.
//
// Locks, outermost first: files, syncing, io, gate, mu.
type Store struct {
	o    Options
	fs   FS
	log  *slog.Logger
	lock io.Closer // of the directory; nil without one

	files  sync.Mutex // guards man, number and doubt, and that one at a time changes what the directory has
	man    *manifest
	number uint64 // of the last file
	// dropped: there is no MANIFEST but one that was retired, so nothing in the directory counts.
	dropped bool
	doubt   bool // the MANIFEST on the disk may be another than man

	syncing sync.Mutex // held while a log is synced

	gate journal.Gate // closed while the parts are cut

	io       sync.Mutex // guards cur, old and what belongs to writing them; never held during a sync
	cur      *logFile   // nil where there is none, or none that can be written
	old      *logFile   // the one before, while it is not durable
	stamp    batch      // clock, boot and flush of the last batch
	buf      journal.Buffer
	zeros    []byte   // see ahead; made when it is needed first, by the tests before that
	split    int      // logFile.split of the tests; 0 for what it is
	instance [16]byte // the directory's, once it is loaded
	// boot is the machine's id in this run's files.
	boot uint64

	opened, durable atomic.Uint64
	unkicked        atomic.Bool // somebody waits, and the writer has not been told
	policy          atomic.Uint32
	// failure is why writers are refused; nil while all is well.
	failure atomic.Pointer[failure]

	mu      sync.Mutex // guards waiters, retired and status
	waiters []waiter
	retired bool // nobody waits any more, see Retire
	status  status

	// busySince is when the commit under way began, 0 for none; stalled that it takes too long.
	busySince atomic.Int64
	unsynced  age
	// maxUnsynced is Options.MaxUnsynced.
	maxUnsynced atomic.Int64
	stalled     atomic.Bool
	telling     sync.Mutex // held while the server is told what Refusing tells
	// forced asks for a snapshot however small the logs are.
	forced   atomic.Bool
	counters counters
	rewrite  [2]atomic.Int64 // percent, least bytes

	kick, dirtied, broken, grown chan struct{} // of one place each
	stop                         chan struct{}
	stopOnce                     sync.Once
	loops                        sync.WaitGroup
}

type failure struct{ err error }

// waiter is called when the drain of this number is durable.
type waiter struct {
	at uint64
	fn func()
}

// Open takes the directory and reads its MANIFEST. Nothing else is read or
// written yet: that is Load's. Errors: ErrLocked, ErrNoManifest, ErrFormat,
// *CorruptError, those of the file system.
func Open(o Options) (*Store, error) {
	s := &Store{
		o: o, fs: o.FS, log: o.Log,
		kick: make(chan struct{}, 1), dirtied: make(chan struct{}, 1), broken: make(chan struct{}, 1), grown: make(chan struct{}, 1),
		stop: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.o.Entropy == nil {
		s.o.Entropy = rand.Reader
	}
	if s.o.Boot == nil {
		s.o.Boot = func() (uint64, int64) { return 0, 0 }
	}
	if o.Policy == 0 {
		o.Policy = EverySec
	}
	s.SetPolicy(o.Policy)
	s.SetRewrite(o.RewritePercent, o.RewriteMin)
	s.SetMaxUnsynced(o.MaxUnsynced)
	if s.fs == nil {
		if err := s.takeDir(); err != nil {
			return nil, err
		}
	}
	if err := s.readManifest(); err != nil {
		s.unlock()
		return nil, err
	}
	return s, nil
}

// takeDir makes the directory if need be, and locks it.
func (s *Store) takeDir() error {
	s.fs = OS{}
	if err := s.fs.Mkdir(s.o.Dir); err == nil {
		// Its name must be durable before anything that it holds is.
		if err := s.fs.SyncDir(parent(s.o.Dir)); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := Lock(s.o.Dir)
	s.lock = lock
	return err
}

func (s *Store) unlock() {
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

// SetPolicy changes the policy. Replies that wait are released at the next sync.
func (s *Store) SetPolicy(p Policy) {
	s.policy.Store(uint32(p))
	signal(s.kick)
}

// Policy is the policy in force.
func (s *Store) Policy() Policy { return Policy(s.policy.Load()) }

// SetRewrite changes when snapshots are made by themselves, see Options.
func (s *Store) SetRewrite(percent, least int64) {
	s.rewrite[0].Store(percent)
	s.rewrite[1].Store(least)
}

// Failing returns why writers must be refused, nil where they need not be: the
// log cannot be written. It heals by itself, see rescue. It is cheap.
func (s *Store) Failing() error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// randomID is a number that no other file has, and not 0.
func (s *Store) randomID() (uint64, error) {
	var b [8]byte
	for {
		if _, err := io.ReadFull(s.o.Entropy, b[:]); err != nil {
			return 0, fmt.Errorf("making an id: %w", err)
		}
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id, nil
		}
	}
}

// signal wakes whoever receives from c, now or when it next does.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
