package server

import (
	"errors"
	"log/slog"
)

// LevelVerbose is the log level, between debug and info, of events that a single client causes.
const LevelVerbose = slog.Level(-2)

// Reasons for closing a connection, as they appear in the log.
var (
	errEOF         = errors.New("closed by the client")
	errQuit        = errors.New("client sent QUIT")
	errKilled      = errors.New("killed by CLIENT KILL")
	errPanic       = errors.New("a command panicked")
	errStopped     = errors.New("server is stopping")
	errProtocol    = errors.New("protocol error")
	errOutput      = errors.New("unsent replies over client-output-buffer-limit")
	errEvicted     = errors.New("client buffers over maxmemory-clients")
	errIdle        = errors.New("idle for longer than timeout")
	errAuthTime    = errors.New("not authenticated within auth-timeout")
	errCommandTime = errors.New("a command was not completed within command-timeout")
	errWriteTime   = errors.New("replies were not read within write-timeout")
	errCross       = errors.New("another protocol on this port")
	errRefused     = errors.New("refused")
	errGuesses     = errors.New("too many failed AUTH attempts")
	errGaveWay     = errors.New("not authenticated, and a newer client needed the place (maxclients)")
)

// reasons is the number of values of the metric's reason label.
const reasons = 15

// reasonNames returns the values of the reason label, indexed by reasonOf. The first stands for
// every error that is not one of the server's reasons.
func reasonNames() [reasons]string {
	return [reasons]string{
		"client", "killed", "panic", "stopping", "protocol", "output-buffer", "maxmemory-clients",
		"idle", "auth-timeout", "command-timeout", "write-timeout", "cross-protocol", "quit", "auth-failures",
		"maxclients",
	}
}

// reasonOf returns the index in reasonNames of the reason for closing a connection.
func reasonOf(err error) int {
	list := [reasons]error{
		nil, errKilled, errPanic, errStopped, errProtocol, errOutput, errEvicted,
		errIdle, errAuthTime, errCommandTime, errWriteTime, errCross, errQuit, errGuesses,
		errGaveWay,
	}
	for i, r := range list {
		if r != nil && errors.Is(err, r) {
			return i
		}
	}
	return 0
}

// timedOut returns the number of connections closed because of a deadline.
func (c *counters) timedOut() uint64 {
	var n uint64
	for _, r := range []error{errIdle, errAuthTime, errCommandTime, errWriteTime} {
		n += c.closed[reasonOf(r)].Load()
	}
	return n
}
