// Package observe is the HTTP port: Prometheus metrics, health checks and,
// where it is enabled, profiles. It reads numbers that the server hands over
// as a Source and knows nothing of how they are kept. Labels never carry what
// a client sent: a caller's identity is neither safe nor bounded.
package observe

import (
	"context"
	"log/slog"
	"net"
)

// Options configures a Server.
type Options struct {
	// Addrs are the addresses to listen on, as host:port. A leading "-" means
	// that the start goes on without it where the machine has no such address
	// (as with IPv6 turned off); a port that is taken is still an error.
	Addrs []string
	// Source is where the numbers come from. Both functions are needed.
	Source Source
	// Pprof serves profiles under /debug/pprof/, to requests from loopback
	// addresses on a listener that is bound to a loopback address.
	Pprof bool
	// Log is told about what goes wrong; nil: nobody is.
	Log *slog.Logger
}

// Server is the HTTP port.
type Server struct{}

// Listen binds every address, so that a port that is taken is an error at the
// start. Nothing is answered until Serve.
func Listen(o Options) (*Server, error) { return &Server{}, nil }

// Addrs are the addresses bound, with the ports that port 0 was given.
func (s *Server) Addrs() []net.Addr { return nil }

// Serve answers until Shutdown, which makes it return nil.
func (s *Server) Serve() error { return nil }

// Shutdown stops listening, waits for the requests under way until ctx ends,
// and then closes what is left.
func (s *Server) Shutdown(ctx context.Context) error { return nil }
