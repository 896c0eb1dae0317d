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

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

// Policy says when written changes are synced.
type Policy uint32

// The policies, as Redis' appendfsync names them.
const (
	// Always syncs before any reply leaves that has seen the change.
	Always Policy = iota + 1
	// EverySec syncs once a second.
	EverySec
	// Never leaves it to the kernel.
	Never
)

// Options configures a Store. A field whose comment names no default must be set.
type Options struct {
	// Dir is the directory. Open makes it if its parent exists.
	Dir string
	// FS is the file system of Dir; nil means the system's, and then Open locks Dir.
	FS disk.FS
	// Parts hold the state.
	Parts []Part
	// Policy is the policy at first; 0 means EverySec. See SetPolicy.
	Policy Policy
	// Now is the clock of decisions, in Unix ns. It never runs backwards.
	Now func() int64
	// Boot returns an id of the machine's last start and the time since then, in ns. If the machine has not
	// restarted between two runs, the store trusts that time and not the wall clock. A nil Boot, or an id of
	// 0, means that nothing is known.
	Boot func() (id uint64, elapsed int64)
	// WallClock makes decisions continue at the wall clock's time even if earlier decisions were made later than
	// that. No key is then owed more time than when its state was written. See Loaded.Now.
	WallClock bool
	// Recovering is called during Load, before the first Part.Apply, with Now and Clean set; nil means no
	// call.
	Recovering func(Loaded)
	// Progress is called during Load with the bytes read so far and the bytes to read; nil means no call.
	Progress func(done, total int64)
	// Workers is the number of goroutines that apply records during Load; 0 means 1.
	Workers int
	// RewritePercent and RewriteMin say when the store makes a snapshot by itself: when the logs together
	// have at least RewriteMin bytes and at least RewritePercent of the base's size. 0 percent means never.
	// See SetRewrite.
	RewritePercent, RewriteMin int64
	// MaxUnsynced is the age in ns that written bytes may reach without being durable; beyond it writers are
	// refused. 0 means 2 s. See SetMaxUnsynced.
	MaxUnsynced int64
	// Refusing is called with the reason when writers must be refused, and with nil when they may write
	// again. If it is nil, call Failing instead. It must not block.
	Refusing func(error)
	// Fatal is called once when the log cannot be written under Always. Nothing that waits is ever released,
	// so the process must end. It must not block.
	Fatal func(error)
	// Log receives messages; nil means nowhere.
	Log *slog.Logger
	// Entropy makes ids; nil means crypto/rand.
	Entropy io.Reader
}

// Store keeps the state of its parts in one directory. Its life is Open, Load, Start, and Close or Retire.
//
// How a change becomes durable: its part appends a record to a buffer under a lock of its own. The writer
// (one goroutine) drains all buffers, writes the records as one batch, syncs if the policy says so, publishes
// what is durable, and releases the replies that wait for it. Other changes gather during a sync; the next
// batch and sync serve them all (group commit).
//
// Drains are numbered. The writer raises opened before a drain, and sets durable to that number after the
// sync. A caller of Wait whose part is dirty waits for drain opened+1, since its change may have missed the
// drain in progress. A caller whose part is clean waits for drain opened only, since everything that it can
// have seen was drained. The order of the two reads matters: dirty first.
//
// Locks, outermost first: files, syncing, io, gate, mu.
type Store struct {
	o    Options
	fs   disk.FS
	log  *slog.Logger
	lock io.Closer // on the directory; nil if there is none

	files  sync.Mutex // guards man, number and doubt; held while the set of files changes
	man    *manifest
	number uint64 // of the last file
	// dropped: the only MANIFEST was retired, so nothing in the directory counts.
	dropped bool
	doubt   bool // the MANIFEST on disk may differ from man

	syncing sync.Mutex // held while a log is synced

	gate journal.Gate // closed while the parts are cut

	io       sync.Mutex // guards cur, old and the fields for writing them; never held during a sync
	cur      *logFile   // the current log; nil if there is none, or it cannot be written
	old      *logFile   // the log before cur, until it is durable
	stamp    batch      // clock, boot and flush of the last batch
	buf      journal.Buffer
	zeros    []byte   // see ahead; made at first use, or before that by tests
	split    int      // logFile.split for tests; 0 means the default
	instance [16]byte // the directory's, once it is loaded
	// boot is the id of the machine's start in the headers of this run's files.
	boot uint64

	opened, durable atomic.Uint64
	unkicked        atomic.Bool // somebody waits, and the writer does not know it yet
	// due is when what the parts have must be written, in Unix ns; 0 if they have nothing new.
	due    atomic.Int64
	policy atomic.Uint32
	// failure is why writers are refused; nil if they are not.
	failure atomic.Pointer[failure]

	mu      sync.Mutex // guards held, retired and status
	held    []heldReply
	retired bool // nobody waits any more; see Retire
	status  status

	// busySince is when the commit in progress began, 0 if there is none. stalled means that the disk is too
	// slow.
	busySince atomic.Int64
	unsynced  age
	// maxUnsynced is Options.MaxUnsynced.
	maxUnsynced atomic.Int64
	stalled     atomic.Bool
	telling     sync.Mutex // held while Refusing is called
	// forced asks for a snapshot even if the logs are small.
	forced   atomic.Bool
	counters counters
	rewrite  [2]atomic.Int64 // percent, least bytes

	kick, dirtied, broken, grown chan struct{} // each with room for one signal
	stop                         chan struct{}
	stopOnce                     sync.Once
	loops                        sync.WaitGroup
}

type failure struct{ err error }

// heldReply is a reply that waits: its fn is called when the drain with number at is durable.
type heldReply struct {
	at uint64
	fn func(error)
}

// Open locks the directory and reads its MANIFEST. Load reads and writes the rest. Errors: ErrLocked,
// ErrNoManifest, ErrFormat, *CorruptError, and those of the file system.
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

// takeDir makes the directory if needed, and locks it.
func (s *Store) takeDir() error {
	s.fs = disk.OS{}
	if err := s.fs.Mkdir(s.o.Dir); err == nil {
		// The directory's name must be durable before anything in it is.
		if err := s.fs.SyncDir(parent(s.o.Dir)); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := disk.Lock(s.o.Dir, false)
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

// Policy returns the current policy.
func (s *Store) Policy() Policy { return Policy(s.policy.Load()) }

// SetRewrite changes Options.RewritePercent and Options.RewriteMin.
func (s *Store) SetRewrite(percent, least int64) {
	s.rewrite[0].Store(percent)
	s.rewrite[1].Store(least)
}

// Failing returns why the log cannot be written, or nil if it can. Writers must be refused until then; see
// rescue. It is cheap.
func (s *Store) Failing() error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// randomID returns a random number that is not 0.
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

// signal wakes the receiver of c, now or the next time it receives.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
