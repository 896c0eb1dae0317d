package clients

import (
	"errors"
	"sync/atomic"

	"limitdb/internal/stats"
)

// Reasons for closing a connection, as they appear in the log.
var (
	ErrEOF         = errors.New("closed by the client")
	ErrQuit        = errors.New("client sent QUIT")
	ErrKilled      = errors.New("killed by CLIENT KILL")
	ErrPanic       = errors.New("a command panicked")
	ErrStopped     = errors.New("server is stopping")
	ErrProtocol    = errors.New("protocol error")
	ErrOutput      = errors.New("unsent replies over client-output-buffer-limit")
	ErrEvicted     = errors.New("client buffers over maxmemory-clients")
	ErrIdle        = errors.New("idle for longer than timeout")
	ErrAuthTime    = errors.New("not authenticated within auth-timeout")
	ErrCommandTime = errors.New("a command was not completed within command-timeout")
	ErrWriteTime   = errors.New("replies were not read within write-timeout")
	ErrCross       = errors.New("another protocol on this port")
	ErrRefused     = errors.New("refused")
	ErrGuesses     = errors.New("too many failed AUTH attempts")
	ErrUserGone    = errors.New("its user was deleted, or lost a right that it used")
	ErrGaveWay     = errors.New("not authenticated, and a newer client needed the place (maxclients)")
)

// counted are the reasons that are counted apart, with their values of the metric's reason label. The first stands for every other
// error.
var counted = [...]struct {
	reason error
	label  string
}{
	{nil, "client"},
	{ErrKilled, "killed"},
	{ErrPanic, "panic"},
	{ErrStopped, "stopping"},
	{ErrProtocol, "protocol"},
	{ErrOutput, "output-buffer"},
	{ErrEvicted, "maxmemory-clients"},
	{ErrIdle, "idle"},
	{ErrAuthTime, "auth-timeout"},
	{ErrCommandTime, "command-timeout"},
	{ErrWriteTime, "write-timeout"},
	{ErrCross, "cross-protocol"},
	{ErrQuit, "quit"},
	{ErrGuesses, "auth-failures"},
	{ErrGaveWay, "maxclients"},
	{ErrUserGone, "user"},
}

// Reasons counts closed connections by their reason.
type Reasons [len(counted)]atomic.Uint64

// Add counts a connection that was closed for a reason.
func (r *Reasons) Add(reason error) { r[indexOf(reason)].Add(1) }

// Of returns the number of connections closed for any of the reasons.
func (r *Reasons) Of(reasons ...error) (n uint64) {
	for _, reason := range reasons {
		n += r[indexOf(reason)].Load()
	}
	return n
}

// Counts returns the number for each reason.
func (r *Reasons) Counts() []stats.Count {
	var out []stats.Count
	for i := range counted {
		out = append(out, stats.Count{Name: counted[i].label, N: r[i].Load()})
	}
	return out
}

func indexOf(err error) int {
	for i, c := range counted {
		if c.reason != nil && errors.Is(err, c.reason) {
			return i
		}
	}
	return 0
}
