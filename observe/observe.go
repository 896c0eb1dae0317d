// Package observe is the HTTP port: Prometheus metrics, health checks and,
// where it is enabled, profiles. It reads numbers that the server hands over
// as a Source and knows nothing of how they are kept. Labels never carry what
// a client sent: a caller's identity is neither safe nor bounded.
package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Options configures a Server.
type Options struct {
	// Addrs are the addresses to listen on, as host:port. A leading "-" means
	// that the start goes on without it where the machine has no such address
	// (as with IPv6 turned off); a port that is taken is still an error.
	Addrs []string
	// Source is where the numbers come from. Snapshot and Ready are needed.
	Source Source
	// Pprof serves profiles under /debug/pprof/, to requests from loopback
	// addresses on a listener that is bound to a loopback address.
	Pprof bool
	// Password returns the password of all pages but /livez and /readyz, "" for
	// none; nil: there is none. It is asked at each request.
	Password func() string
	// Log is told about what goes wrong; nil: nobody is.
	Log *slog.Logger
}

// bounds are what a stranger may cost. They are no options: nothing that a
// scraper or a probe does comes near them.
type bounds struct {
	header, read, write, idle time.Duration
	headerBytes               int
	connections               int64
}

func defaultBounds() bounds {
	return bounds{
		header:      5 * time.Second,
		read:        10 * time.Second,
		write:       30 * time.Second,
		idle:        60 * time.Second,
		headerBytes: 16 << 10,
		connections: 256,
	}
}

// Server is the HTTP port.
type Server struct {
	http      *http.Server
	listeners []net.Listener
}

// Listen binds every address, so that a port that is taken is an error at the
// start, which names the address. Nothing is answered until Serve.
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
	handler, err := newHandler(&o, log)
	if err != nil {
		return nil, err
	}
	listeners, err := bind(o.Addrs)
	if err != nil {
		return nil, err
	}
	return &Server{
		listeners: listeners,
		http: &http.Server{
			Handler:           handler,
			BaseContext:       withListener,
			ConnState:         limitConnections(b.connections),
			ReadHeaderTimeout: b.header,
			ReadTimeout:       b.read,
			WriteTimeout:      b.write,
			IdleTimeout:       b.idle,
			MaxHeaderBytes:    b.headerBytes,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
	}, nil
}

// bind listens on all of addrs or on none.
func bind(addrs []string) ([]net.Listener, error) {
	var ls []net.Listener
	for _, a := range addrs {
		name, optional := strings.CutPrefix(a, "-")
		l, err := net.Listen(network(name), name)
		if err != nil {
			if optional && absent(err) {
				continue
			}
			closeAll(ls)
			return nil, fmt.Errorf("http port: %w", err)
		}
		ls = append(ls, l)
	}
	if len(ls) == 0 {
		return nil, errors.New("http port: no address to listen on")
	}
	return ls, nil
}

// network is "tcp4" or "tcp6" for an address in numbers, so that [::] leaves
// IPv4 alone and can stand beside 0.0.0.0.
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

// absent tells whether err says that the machine has no such address.
func absent(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) ||
		errors.Is(err, syscall.EPROTONOSUPPORT)
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		// Closing twice is the only way to fail here.
		_ = l.Close()
	}
}

// limitConnections closes a connection at once when there are more than n.
// Leaving it unaccepted instead would let idle connections hold up a probe for
// as long as they may idle.
func limitConnections(n int64) func(net.Conn, http.ConnState) {
	var open atomic.Int64
	return func(c net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			if open.Add(1) > n {
				_ = c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
}

// Addrs are the addresses bound, with the ports that port 0 was given.
func (s *Server) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Serve answers until Shutdown, which makes it return nil. Another error is
// that of a listener which failed for good; the others are closed then.
func (s *Server) Serve() error {
	errs := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { errs <- s.http.Serve(l) }()
	}
	var first error
	for range s.listeners {
		err := <-errs
		if first == nil && !errors.Is(err, http.ErrServerClosed) {
			first = fmt.Errorf("http port: %w", err)
			_ = s.http.Close()
		}
	}
	return first
}

// Shutdown stops listening, waits for the requests under way until ctx ends,
// and then closes what is left. It returns ctx's error if there was something
// left to close.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	// Only now, so that Serve knows why its listeners close. Those that it has
	// not taken over yet are unknown to http.Server.
	closeAll(s.listeners)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		_ = s.http.Close()
		return fmt.Errorf("http port: %w", err)
	}
	return nil
}
