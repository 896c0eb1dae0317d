// Package envoyrls is the gRPC port: it answers Envoy's rate limit service, envoy.service.ratelimit.v3.RateLimitService, and the health
// checks of gRPC. It turns a request into the command RL.ENVOY, which the server runs as it runs a client's, and the command's reply into a
// response. docs/envoy.md is its manual.
//
// It speaks HTTP/2 itself, in sessions without goroutines as those of RESP: with the usual package, which hands each call from one goroutine to the
// next, a decision took two to four times as much processor time.
package envoyrls

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/transport"
)

// A Guest is a connection as the server counts it among its clients. Its methods may be called by any goroutine.
type Guest interface {
	// May returns a context in which Begin acts for whoever gives this name and this password, or why they may not decide. given is false without a
	// password.
	May(user, password []byte, given bool) (context.Context, error)
	// Certified notes the common name of the certificate that the client has presented and that was verified. It is called before any call.
	Certified(name string)
	// Begins notes that something has come, and returns the time, ns of Unix time.
	Begins() (now int64)
	// Waits notes since when the client owes the rest of what it has begun to send, 0 if all is whole.
	Waits(since int64)
	// Holds notes how many bytes of calls are held.
	Holds(bytes int64)
	// Leave notes that the connection is closed for a reason. It is called once.
	Leave(reason error)
}

// Options configures a Server. Begin, Enter, Longest, Ready and Now must be set.
type Options struct {
	// Begin runs a command and returns its reply. If wait is not nil, the command has not run, or its reply may not be sent yet: wait returns
	// the reply when it may or, if its ctx ends before, ctx's error. Any goroutine may call it. args are not used after Begin has returned.
	Begin func(ctx context.Context, args [][]byte) (reply []byte, wait func(ctx context.Context) ([]byte, error))
	// Enter lets a connection in, or returns why not.
	Enter func(c transport.Conn) (Guest, error)
	// Longest returns the most bytes of a key or a value, and of all together, as the settings have them for commands.
	Longest func() (word, all int64)
	// Ready returns nil while the server makes decisions, and otherwise why it does not.
	Ready func() error
	// Now returns the time, ns of Unix time.
	Now func() int64
	// Headers returns which fields responses ask Envoy to add. Nil means none.
	Headers func() Headers
	// Reflection has the port describe its services to whoever asks.
	Reflection bool
	// Log receives messages about failures; nil means nowhere.
	Log *slog.Logger
}

// The bounds of what a client may use.
const (
	maxMessage   = 4 << 20
	maxHeaders   = 16 << 10  // of a head, as HTTP/2 counts
	maxBlock     = 32 << 10  // of a head in HPACK
	maxStreams   = 1000      // calls at once on a connection
	maxName      = 4 << 10   // of a message to a method that needs no password: it has a name
	maxAsks      = 64        // questions about the services in one frame
	maxAhead     = 256 << 10 // of answers to such questions that the client has not made room for
	maxSettings  = 32        // in one frame
	callSize     = 512       // what a call without its messages counts as
	streamWindow = 64 << 10
	connWindow   = 16 * streamWindow
	// decideFor bounds the time of a call whose client sets no deadline.
	decideFor = 10 * time.Second
	// pingEvery is after how much silence a client is asked whether it is there, and pingWait how long it may take.
	pingEvery = time.Minute
	pingWait  = 20 * time.Second
	// pingLeast is the least time between two such questions of a client, unless it gets an answer in between, and pingStrikes how many may come sooner.
	pingLeast   = 10 * time.Second
	pingStrikes = 2
)

// TickEvery is how often Tick is to be called.
const TickEvery = time.Second

// Server is the gRPC port. Its Group has the addresses.
type Server struct {
	Options
	*transport.Group
	stopping atomic.Bool
	open     sync.WaitGroup         // sessions
	waits    sync.WaitGroup         // goroutines of calls that wait
	files    func() ([]file, error) // see described

	mu       sync.Mutex // guards sessions
	sessions map[*session]struct{}
}

// New returns a port without addresses: call Listen.
func New(o Options, t transport.Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Headers == nil {
		o.Headers = func() Headers { return NoHeaders }
	}
	s := &Server{Options: o, sessions: map[*session]struct{}{}, files: sync.OnceValues(described)}
	t.HTTP2 = true
	s.Group = transport.New(s, t)
	return s
}

// Tick has those told whose health is watched, and asks silent clients whether they are there.
func (s *Server) Tick() { s.wake(s.Now() - int64(pingEvery)) }

// wake wakes the sessions that have something to do, or have been silent since a time.
func (s *Server) wake(since int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.sessions {
		if x.watches.Load() > 0 || x.heard.Load() <= since {
			x.conn.Wake()
		}
	}
}

// fits returns an error if a node could not send the words to another one.
func (s *Server) fits(words [][]byte) error {
	word, all := s.Longest()
	sum := int64(0)
	for _, w := range words {
		if int64(len(w)) > word {
			return fmt.Errorf("a key or a value has %d bytes: proto-max-bulk-len allows %d", len(w), word)
		}
		sum += int64(len(w)) + 16
	}
	if sum > all {
		return fmt.Errorf("the request takes %d bytes as a command: client-query-buffer-limit allows %d", sum, all)
	}
	return nil
}

// Shutdown stops listening, waits for the calls in progress until ctx ends, and then closes the rest. It returns ctx's error if there was
// something left to close.
func (s *Server) Shutdown(ctx context.Context) error {
	s.StopAccepting()
	s.stopping.Store(true)
	s.wake(s.Now())
	done := make(chan struct{})
	go func() { s.open.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	err := s.Close(ctx)
	s.waits.Wait()
	if err != nil {
		return fmt.Errorf("grpc port: %w", err)
	}
	return nil
}

// credentialsOf returns the name and the password of an authorization: Basic has both, Bearer the password of the default user.
func credentialsOf(given string) (user, password string, ok bool) {
	scheme, rest, _ := strings.Cut(given, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return defaultUser, rest, true
	case strings.EqualFold(scheme, "Basic"):
		both, err := base64.StdEncoding.DecodeString(rest)
		if user, password, ok = strings.Cut(string(both), ":"); user == "" {
			user = defaultUser
		}
		return user, password, ok && err == nil
	}
	return "", "", false
}

// defaultUser is the user of a password alone.
const defaultUser = "default"
