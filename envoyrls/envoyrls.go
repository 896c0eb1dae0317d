// Package envoyrls is the gRPC port: it answers Envoy's rate limit service, envoy.service.ratelimit.v3.RateLimitService, and the health
// checks of gRPC. It turns a request into the command RL.ENVOY, which the server runs as it runs a client's, and the command's reply into a
// response. docs/envoy.md is its manual.
package envoyrls

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// A Guest is a connection as the server counts it among its clients. Its methods may be called by any goroutine.
type Guest interface {
	// May returns a context in which Do acts for whoever gives this name and this password, or why they may not decide. given is false without a
	// password.
	May(ctx context.Context, user, password []byte, given bool) (context.Context, error)
	// Certified notes the common name of the certificate that the client has presented and that was verified. It is called before any call.
	Certified(name string)
	// Begins notes that a call begins, and returns the time, ns of Unix time.
	Begins() (now int64)
	// Waits notes since when a call's message is not whole, 0 if all are.
	Waits(since int64)
	// Holds notes how many bytes of calls are held.
	Holds(bytes int64)
	// Leave notes that the connection is closed for a reason. It is called once.
	Leave(reason error)
}

// Options configures a Server. Do, Enter and Ready must be set.
type Options struct {
	// Do runs a command and returns its reply when the reply may be sent. If ctx ends before, Do returns ctx's
	// error. Any goroutine may call it.
	Do func(ctx context.Context, args ...[]byte) ([]byte, error)
	// Enter lets a connection in, or returns why not.
	Enter func(c net.Conn) (Guest, error)
	// Longest returns the most bytes of a key or a value, and of all together, as the settings have them for commands.
	Longest func() (word, all int64)
	// Ready returns nil while the server makes decisions, and otherwise why it does not.
	Ready func() error
	// Headers returns which fields responses ask Envoy to add. Nil means none.
	Headers func() Headers
	// Reflection has the port describe its services to whoever asks.
	Reflection bool
	// TLS makes the port speak TLS. Nil means that it does not.
	TLS *tls.Config
	// Log receives messages about failures; nil means nowhere.
	Log *slog.Logger
}

// The bounds of what a client may use.
const (
	maxMessage  = 4 << 20
	maxHeaders  = 16 << 10
	maxStreams  = 1000 // calls at once on a connection
	window      = 64 << 10
	buffers     = 8 << 10
	handshakeIn = 5 * time.Second
	// workers is how many goroutines stay for calls, with stacks that have grown already. More calls get goroutines of their own.
	workers = 64
	// decideFor bounds the time of a call whose client sets no deadline.
	decideFor = 10 * time.Second
	// pingEvery is after how much silence a client is asked whether it is there, and pingWait how long it may take.
	pingEvery = time.Minute
	pingWait  = 20 * time.Second
	// pingLeast is the least time between two such questions of a client.
	pingLeast = 10 * time.Second
)

var errClosed = errors.New("closed by the client")

// Server is the gRPC port.
type Server struct {
	Options
	grpc   *grpc.Server
	ended  chan error    // receives why Serve must end; has room for one
	stop   chan struct{} // is closed when the port stops
	loops  sync.WaitGroup
	mu     sync.Mutex // guards all below
	all    []listener
	serves bool
	ending bool
}

// listener is a listener and the address that was asked for.
type listener struct {
	net.Listener
	name string
}

// New returns a port without addresses: call Add. Calls are answered from Serve on.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Headers == nil {
		o.Headers = func() Headers { return NoHeaders }
	}
	s := &Server{Options: o, ended: make(chan error, 1), stop: make(chan struct{})}
	s.grpc = grpc.NewServer(
		grpc.Creds(credsOf(o.TLS)),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		// Windows that grow by themselves would let one connection hold many megabytes, and cost a ping for each look.
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(16*window),
		grpc.ReadBufferSize(buffers),
		grpc.WriteBufferSize(buffers),
		grpc.ConnectionTimeout(handshakeIn),
		grpc.InTapHandle(marked),
		grpc.NumStreamWorkers(workers),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingLeast, PermitWithoutStream: true}),
	)
	// The handler reads the message itself, so that it sees the call before.
	s.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: pb.RateLimitService_ServiceDesc.ServiceName,
		Streams:     []grpc.StreamDesc{{StreamName: "ShouldRateLimit", Handler: func(_ any, stream grpc.ServerStream) error { return s.shouldRateLimit(stream) }}},
		Metadata:    pb.RateLimitService_ServiceDesc.Metadata,
	}, nil)
	healthpb.RegisterHealthServer(s.grpc, &health{ready: o.Ready, stop: s.stop})
	if o.Reflection {
		reflection.Register(s.grpc)
	}
	return s
}

// shouldRateLimit answers one call.
func (s *Server) shouldRateLimit(stream grpc.ServerStream) error {
	ctx := stream.Context()
	c := connOf(ctx)
	k := c.begin(ctx)
	defer k.end()
	ctx, err := admit(ctx, c.guest)
	if err != nil {
		return err
	}
	var in message
	if err := stream.RecvMsg(&in); err != nil {
		return err
	}
	k.got(len(in.bytes))
	words, err := command(in.bytes)
	if err == nil {
		err = s.fits(words)
	}
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	out, err := s.decide(ctx, words)
	if err != nil {
		return err
	}
	return stream.SendMsg(out)
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

// decide runs the command of a call. If the deadline is over already, nothing is counted.
func (s *Server) decide(ctx context.Context, words [][]byte) (*pb.RateLimitResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	bounded := ctx
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, decideFor)
		defer cancel()
	}
	reply, err := s.Do(bounded, words...)
	if err != nil {
		return nil, failureOf(ctx, err)
	}
	return responseOf(reply, s.Headers())
}

// admit returns the context of a call whose metadata authorization lets it decide.
func admit(ctx context.Context, g Guest) (context.Context, error) {
	user, password, ok := "", "", false
	if given := metadata.ValueFromIncomingContext(ctx, "authorization"); len(given) > 0 {
		user, password, ok = credentialsOf(given[0])
	}
	ctx, err := g.May(ctx, []byte(user), []byte(password), ok)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return ctx, nil
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

// Addrs returns the bound addresses, with the actual port in place of port 0.
func (s *Server) Addrs() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := make([]net.Addr, len(s.all))
	for i, l := range s.all {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Add listens on one more address, a host:port.
func (s *Server) Add(addr string) error {
	l, err := net.Listen(network(addr), addr)
	if err != nil {
		return fmt.Errorf("grpc port: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		_ = l.Close()
		return grpc.ErrServerStopped
	}
	s.all = append(s.all, listener{l, addr})
	if s.serves {
		s.loops.Go(func() { s.serve(listener{l, addr}) })
	}
	return nil
}

// Remove stops listening on an address that Add was given. Connections that it has accepted remain.
func (s *Server) Remove(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(l listener) bool {
		if l.name == addr {
			_ = l.Close() // it fails only if it is closed twice
		}
		return l.name == addr
	})
}

// Serve answers calls until Shutdown, and then returns nil. If a listener fails for good, Serve closes the others and returns its error.
func (s *Server) Serve() error {
	s.mu.Lock()
	s.serves = !s.ending
	if s.serves {
		for _, l := range s.all {
			s.loops.Go(func() { s.serve(l) })
		}
	}
	s.mu.Unlock()
	err := <-s.ended
	s.loops.Wait()
	return err
}

// serve accepts from l until that is closed.
func (s *Server) serve(l listener) {
	err := s.grpc.Serve(door{l, s})
	s.mu.Lock()
	failed := slices.Contains(s.all, l) && !s.ending
	if failed {
		s.ending = true
		close(s.stop)
		s.ended <- fmt.Errorf("grpc port: %w", err)
	}
	s.mu.Unlock()
	if failed {
		s.grpc.Stop()
	}
}

// door accepts the connections of a listener that the server lets in.
type door struct {
	net.Listener
	s *Server
}

// Accept implements net.Listener.
func (d door) Accept() (net.Conn, error) {
	for {
		raw, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		guest, err := d.s.Enter(raw)
		if err != nil {
			d.s.Log.Debug("a connection to the gRPC port is refused", "addr", raw.RemoteAddr(), "err", err)
			_ = raw.Close() // it is refused either way
			continue
		}
		c := &conn{Conn: raw, guest: guest}
		c.partial.Init()
		return c, nil
	}
}

// Shutdown stops listening, waits for the calls in progress until ctx ends, and then closes the rest. It returns ctx's error if there was
// something left to close.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.ending {
		s.ending = true
		close(s.stop)
		s.ended <- nil
	}
	for _, l := range s.all { // gRPC does not know those that do not serve yet
		_ = l.Close()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return fmt.Errorf("grpc port: %w", ctx.Err())
	}
}

// network returns "tcp4" or "tcp6" for a numeric address, so that [::] does not include IPv4 and can be used beside 0.0.0.0.
func network(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	switch ip := net.ParseIP(host); {
	case ip == nil:
		return "tcp"
	case ip.To4() != nil:
		return "tcp4"
	}
	return "tcp6"
}
