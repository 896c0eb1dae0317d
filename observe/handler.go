package observe

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newRegistry returns a registry of the server's numbers, the process's and
// the Go runtime's. It is never the global one, so that no library can add to
// what is exposed.
func newRegistry(snapshot func() Snapshot) (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		newCollector(snapshot),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("http port: %w", err)
		}
	}
	return r, nil
}

// endpoints answers requests. There is no state here but for the registry.
type endpoints struct {
	source Source
	pprof  bool
}

func newHandler(o *Options, log *slog.Logger) (http.Handler, error) {
	reg, err := newRegistry(o.Source.Snapshot)
	if err != nil {
		return nil, err
	}
	e := &endpoints{source: o.Source, pprof: o.Pprof}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", e.index)
	mux.HandleFunc("GET /livez", e.livez)
	mux.HandleFunc("GET /readyz", e.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.HTTPErrorOnError,
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	}))
	if o.Pprof {
		// Not pprof.Cmdline: a password may stand on the command line.
		mux.Handle("GET /debug/pprof/", onlyLocal(pprof.Index))
		mux.Handle("GET /debug/pprof/profile", onlyLocal(pprof.Profile))
		mux.Handle("GET /debug/pprof/symbol", onlyLocal(pprof.Symbol))
		mux.Handle("POST /debug/pprof/symbol", onlyLocal(pprof.Symbol))
		mux.Handle("GET /debug/pprof/trace", onlyLocal(pprof.Trace))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if o.Password != nil && !isProbe(r) && !knows(r, o.Password()) {
			w.Header().Set("WWW-Authenticate", `Basic realm="limitdb", charset="UTF-8"`)
			plain(w, http.StatusUnauthorized, "a password is required (http-password): Basic authentication with any user name, or a Bearer token")
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// isProbe reports whether a request asks for the health of the server, which
// whoever watches it may know without a password.
func isProbe(r *http.Request) bool { return r.URL.Path == "/livez" || r.URL.Path == "/readyz" }

// knows reports whether a request has the password, of Basic authentication with
// any user name or as a Bearer token, or whether there is none to have.
func knows(r *http.Request, password string) bool {
	if password == "" {
		return true
	}
	_, given, basic := r.BasicAuth()
	if !basic {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		given = strings.TrimSpace(token)
	}
	// Hashed first, so that the comparison does not tell the length.
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// index lists what there is, for a person who opens the port in a browser.
func (e *endpoints) index(w http.ResponseWriter, r *http.Request) {
	var b strings.Builder
	fmt.Fprintf(&b, "limitdb %s\n\n", e.source.Snapshot().Version)
	b.WriteString("/metrics        metrics for Prometheus\n")
	b.WriteString("/livez          200 while the server makes progress\n")
	b.WriteString("/readyz         200 while decisions are served")
	if e.pprof && local(r) {
		b.WriteString("\n/debug/pprof/   profiles")
	}
	plain(w, http.StatusOK, b.String())
}

// livez says whether the server makes progress. A restart heals a process that
// hangs, not one that is loading or overloaded.
func (e *endpoints) livez(w http.ResponseWriter, _ *http.Request) {
	if e.source.Live != nil {
		if err := e.source.Live(); err != nil {
			plain(w, http.StatusServiceUnavailable, "stuck: "+err.Error())
			return
		}
	}
	plain(w, http.StatusOK, "ok")
}

func (e *endpoints) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := e.source.Ready(); err != nil {
		plain(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	plain(w, http.StatusOK, "ok")
}

// onlyLocal answers 404 to whoever is not on this machine, as if the page did
// not exist.
func onlyLocal(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r) {
			http.NotFound(w, r)
			return
		}
		next(w, r)
	})
}

// local tells whether a request was made on this machine: it came from a
// loopback address to a listener bound to one. It must also name this machine
// as its host, which a web page elsewhere that resolved its own name to
// 127.0.0.1 does not, and must not have been passed on by a proxy.
func local(r *http.Request) bool {
	listener, _ := r.Context().Value(listenerKey{}).(net.Addr)
	if listener == nil || !loopbackHost(listener.String()) || !loopbackHost(r.RemoteAddr) {
		return false
	}
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	return loopbackHost(r.Host)
}

// loopbackHost tells whether "host:port" or "host" is this machine's loopback.
// No name is looked up but the one that is fixed.
func loopbackHost(s string) bool {
	host, _, err := net.SplitHostPort(s)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// listenerKey is where a request's context keeps the address of its listener.
type listenerKey struct{}

func withListener(l net.Listener) context.Context {
	return context.WithValue(context.Background(), listenerKey{}, l.Addr())
}
