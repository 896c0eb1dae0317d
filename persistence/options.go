package persistence

import (
	"io"
	"log/slog"

	"limitdb/internal/disk"
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
	// MaxUnsynced is the age in ns that changes may reach without being durable; writers are refused before
	// one is older. 0 means 2 s. See SetMaxUnsynced.
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

// Loaded is the result of Load.
type Loaded struct {
	// Now is the time from which decisions continue, in Unix ns. It is not before any earlier decision, unless
	// Options.WallClock is set. The clock must not be behind it.
	Now int64
	// Clean reports that the last run made everything durable before it ended, or that there was none.
	Clean bool
	// Fresh reports that the directory was empty.
	Fresh bool
	// Sets, Deletes and Expired count the records that set or change a state (even if a later record replaces it), that
	// deleted a key, and whose state had expired. Bytes is how much was read.
	Sets, Deletes, Expired uint64
	Bytes                  int64
	// CutFile, CutAt and CutBytes describe a torn tail that was cut off, without the zeros at its end.
	// CutAside is the path of a copy of it. They are empty if there was none.
	CutFile  string
	CutAt    int64
	CutBytes int64
	CutAside string
}
