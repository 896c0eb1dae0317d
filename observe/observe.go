// Package observe is the HTTP port: Prometheus metrics, health checks and, if enabled, profiles. Decisions over
// HTTP come from a handler that it is given. It reads the server's figures from a Source and does not know how they are kept. Labels never contain what a client
// sent: a caller's identity is neither safe nor bounded.
package observe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"limitdb/internal/origin"
)

// Options configures a Server.
type Options struct {
	// Addrs are the addresses to listen on, as host:port. An address with a leading "-" is optional: Listen
	// goes on without it if the machine has no such address (for example, with IPv6 turned off). A port that
	// is taken is still an error. Listen binds all of them, or none; without any, call Add.
	Addrs []string
	// Source provides the figures. Snapshot and Ready are required.
	Source Source
	// Pprof enables profiles under /debug/pprof/, for requests from loopback addresses to a listener that is
	// bound to a loopback address.
	Pprof bool
	// Password returns the password for all pages but /livez, /readyz and /auth, or "" if there is none. It is
	// called at each request. Nil means no password.
	Password func() string
	// Guesses bounds wrong passwords. Nil means bounds of its own.
	Guesses *Guesses
	// Users are the server's users, who may give their own names and passwords. Nil means that there are none.
	Users Users
	// Decisions answers /v1/ and /auth. Nil means that both say that decisions over HTTP are off.
	Decisions http.Handler
	// Dashboard answers /dashboard/, and checks the password itself. Nil means that there is no such page.
	Dashboard http.Handler
	// Hosts returns the names, besides addresses and localhost, under which /metrics and /v1/ are served without a
	// password. Nil means that there are none.
	Hosts func() []string
	// AuthHosts returns the names, besides addresses and localhost, under which /auth is served. Nil, or no names, means any.
	AuthHosts func() []string
	// Protected reports whether protected mode is on: without a password, a proxy on this machine may then pass on no
	// requests for /metrics and /v1/. Nil means that it is off.
	Protected func() bool
	// Proxy reports whether the proxy at an address may ask /auth. Nil means that none may.
	Proxy func(netip.Addr) bool
	// TLS makes the port speak TLS. Nil means plain HTTP.
	TLS *tls.Config
	// Log receives messages about failures; nil means nowhere.
	Log *slog.Logger
}

// bounds limit what a stranger may use. They are not options: no scraper or probe comes near them.
type bounds struct {
	header, read, write, idle time.Duration
	headerBytes               int
	connections, spare        int
}

func defaultBounds() bounds {
	return bounds{
		header:      5 * time.Second,
		read:        10 * time.Second,
		write:       30 * time.Second,
		idle:        60 * time.Second,
		headerBytes: 12 << 10, // and 4 kB more, which net/http adds
		connections: 256,
		spare:       64,
	}
}

// decidingConnections is how many connections that are no strangers' there may be with Options.Decisions. Proxies keep many open.
const decidingConnections = 4096

func (b bounds) deciding() bounds {
	b.connections = max(b.connections, decidingConnections)
	return b
}

// MostConnections returns how many connections a port may have, with Options.Decisions or without.
func MostConnections(decisions bool) int {
	b := defaultBounds()
	if decisions {
		b = b.deciding()
	}
	return b.connections + b.spare
}

// Server is the HTTP port.
type Server struct {
	http  *http.Server
	tls   *tls.Config // nil for plain HTTP
	ended chan error  // receives why Serve must end; has room for one
	loops sync.WaitGroup

	mu              sync.Mutex // guards all below
	listeners       []listener
	serving, ending bool
}

// listener is a listener and the address that was asked for.
type listener struct {
	net.Listener
	name string
}

// Listen binds every address, so that a port that is taken is an error at the start. The error names the
// address. Requests are answered from Serve on.
func Listen(o Options) (*Server, error) {
	return listen(o, defaultBounds())
}

func listen(o Options, b bounds) (*Server, error) {
	if o.Source.Snapshot == nil || o.Source.Ready == nil {
		return nil, errors.New("http port: the source has no numbers")
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if o.Decisions != nil {
		b = b.deciding()
	}
	all := newPlaces(b.connections, b.spare)
	handler, err := newHandler(&o, all, log)
	if err != nil {
		return nil, err
	}
	listeners, err := bind(o.Addrs)
	if err != nil {
		return nil, err
	}
	return &Server{
		listeners: listeners,
		tls:       o.TLS,
		ended:     make(chan error, 1),
		http: &http.Server{
			Handler:           handler,
			BaseContext:       withListener,
			ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return withConn(withOrigin(ctx, c), c) },
			ConnState:         all.track,
			ReadHeaderTimeout: b.header,
			ReadTimeout:       b.read,
			WriteTimeout:      b.write,
			IdleTimeout:       b.idle,
			MaxHeaderBytes:    b.headerBytes,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
	}, nil
}

// withOrigin gives the commands of a connection's requests their origin.
func withOrigin(ctx context.Context, c net.Conn) context.Context {
	return origin.With(ctx, &origin.Origin{User: origin.DefaultUser, Addr: c.RemoteAddr().String()})
}

// bind listens on all of addrs or on none.
func bind(addrs []string) ([]listener, error) {
	var ls []listener
	for _, a := range addrs {
		name, optional := strings.CutPrefix(a, "-")
		l, err := bindOne(name)
		if err != nil {
			if optional && absent(err) {
				continue
			}
			closeAll(ls)
			return nil, err
		}
		ls = append(ls, l)
	}
	if len(ls) == 0 && len(addrs) > 0 {
		return nil, errors.New("http port: no address to listen on")
	}
	return ls, nil
}

func bindOne(addr string) (listener, error) {
	l, err := net.Listen(network(addr), addr)
	if err != nil {
		return listener{}, fmt.Errorf("http port: %w", err)
	}
	return listener{l, addr}, nil
}

// network returns "tcp4" or "tcp6" for a numeric address, so that [::] does not include IPv4 and can be used
// beside 0.0.0.0.
func network(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return "tcp"
	case ip.Is4():
		return "tcp4"
	default:
		return "tcp6"
	}
}

// absent reports whether err means that the machine has no such address.
func absent(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) ||
		errors.Is(err, syscall.EPROTONOSUPPORT)
}

func closeAll(ls []listener) {
	for _, l := range ls {
		// Close fails only when it is called twice.
		_ = l.Close()
	}
}

// Addrs returns the bound addresses, with the actual port in place of port 0.
func (s *Server) Addrs() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Add listens on one more address, a host:port.
func (s *Server) Add(addr string) error {
	l, err := bindOne(addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		closeAll([]listener{l})
		return http.ErrServerClosed
	}
	s.listeners = append(s.listeners, l)
	if s.serving {
		s.loops.Go(func() { s.serve(l) })
	}
	return nil
}

// Remove stops listening on an address that Listen or Add was given. Connections that it has accepted remain.
func (s *Server) Remove(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = slices.DeleteFunc(s.listeners, func(l listener) bool {
		if l.name == addr {
			closeAll([]listener{l})
		}
		return l.name == addr
	})
}

// Serve answers requests until Shutdown, and then returns nil. If a listener fails for good, Serve closes the
// others and returns its error.
func (s *Server) Serve() error {
	s.mu.Lock()
	s.serving = !s.ending
	if s.serving {
		for _, l := range s.listeners {
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
	accept := l.Listener
	if s.tls != nil {
		accept = tls.NewListener(l, s.tls)
	}
	err := s.http.Serve(accept)
	s.mu.Lock()
	removed := !slices.Contains(s.listeners, l)
	if !removed && !s.ending {
		s.ending = true
		s.ended <- fmt.Errorf("http port: %w", err)
		_ = s.http.Close()
	}
	s.mu.Unlock()
}

// Shutdown stops listening, waits for the requests in progress until ctx ends, and then closes the rest. It
// returns ctx's error if there was something left to close.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.ending {
		s.ending = true
		s.ended <- nil
	}
	all := slices.Clone(s.listeners)
	s.mu.Unlock()
	err := s.http.Shutdown(ctx)
	// http.Server does not know listeners that it has not taken over yet.
	closeAll(all)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		_ = s.http.Close()
		return fmt.Errorf("http port: %w", err)
	}
	return nil
}
