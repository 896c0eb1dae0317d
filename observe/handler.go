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
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newRegistry returns a registry of the metrics of the server, the process and the Go runtime. It does not
// use the global registry, so no library can add metrics.
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

// endpoints answers requests.
type endpoints struct {
	source   Source
	pprof    bool
	decide   bool
	board    bool
	password func() string
	users    Users
	guesses  *Guesses

	hosts     func() []string
	authHosts func() []string
	protected func() bool
	proxy     func(netip.Addr) bool
	places    *places
}

func newHandler(o *Options, all *places, log *slog.Logger) (http.Handler, error) {
	reg, err := newRegistry(o.Source.Snapshot)
	if err != nil {
		return nil, err
	}
	e := &endpoints{source: o.Source, pprof: o.Pprof, decide: o.Decisions != nil, board: o.Dashboard != nil, password: o.Password, users: o.Users, guesses: o.Guesses, hosts: o.Hosts, authHosts: o.AuthHosts, protected: o.Protected, proxy: o.Proxy, places: all}
	if e.guesses == nil {
		e.guesses = new(Guesses)
	}
	mux := http.NewServeMux()
	if e.board {
		mux.Handle(dashboardPath, o.Dashboard)
	}
	if e.decide {
		mux.Handle("/v1/", o.Decisions)
		mux.Handle("/auth", o.Decisions)
	} else {
		off := func(w http.ResponseWriter, _ *http.Request) {
			plain(w, http.StatusNotFound, "this server makes no decisions over HTTP: start it with --http-decisions yes")
		}
		mux.HandleFunc("/v1/", off)
		mux.HandleFunc("/auth", off)
	}
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
		// Not pprof.Cmdline, because the command line may contain a password.
		mux.Handle("GET /debug/pprof/", onlyLocal(pprof.Index))
		mux.Handle("GET /debug/pprof/profile", onlyLocal(pprof.Profile))
		mux.Handle("GET /debug/pprof/symbol", onlyLocal(pprof.Symbol))
		mux.Handle("POST /debug/pprof/symbol", onlyLocal(pprof.Symbol))
		mux.Handle("GET /debug/pprof/trace", onlyLocal(pprof.Trace))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		r, signed, ok := e.signIn(w, r)
		if ok && e.passes(w, r, signed) && (signed || e.open(r) || e.admits(w, r)) && e.mayLook(w, r) && e.place(w, r) {
			mux.ServeHTTP(w, r)
		}
	}), nil
}

// admits reports whether a request has the password. If not, it has answered.
func (e *endpoints) admits(w http.ResponseWriter, r *http.Request) bool {
	if e.password == nil {
		return true
	}
	password, now := e.password(), time.Now()
	switch given := r.Header.Get("Authorization") != ""; {
	case password == "":
		return true
	case given && e.guesses.Wait(r, now) > 0:
		w.Header().Set("Retry-After", strconv.Itoa(e.guesses.Wait(r, now)))
		plain(w, http.StatusTooManyRequests, TooManyGuesses)
		return false
	case knows(r, password):
		return true
	case given:
		e.guesses.Wrong(r, now)
	}
	challenge(w)
	return false
}

// place reports whether there is a place for the connection of a request. If not, it has answered. A request that anybody may
// make is served, but its connection remains a stranger's.
func (e *endpoints) place(w http.ResponseWriter, r *http.Request) bool {
	if e.open(r) && !(r.URL.Path == "/auth" && e.asksAsProxy(r)) || e.places.keep(r) {
		return true
	}
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close")
	plain(w, http.StatusServiceUnavailable, "too many connections: try later")
	return false
}

// asksAsProxy reports whether a request comes from a proxy that may ask /auth.
func (e *endpoints) asksAsProxy(r *http.Request) bool {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && e.proxy != nil && e.proxy(a.Addr().Unmap().WithZone(""))
}

// open reports whether a request needs no password: it asks for the health of the server, or is a proxy's
// question, whose Authorization header is its caller's; Decisions checks the proxy's address instead. The
// dashboard asks for the password itself.
func (e *endpoints) open(r *http.Request) bool {
	switch r.URL.Path {
	case "/livez", "/readyz":
		return true
	case "/auth":
		return e.decide
	case "/":
		return e.leads(r)
	}
	return e.board && strings.HasPrefix(r.URL.Path, dashboardPath)
}

// leads reports whether a request for / is a browser's, which is led to the dashboard.
func (e *endpoints) leads(r *http.Request) bool {
	return e.board && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// dashboardPath is where the dashboard is.
const dashboardPath = "/dashboard/"

// knows reports whether a request has the password, in Basic authentication with any user name or as a Bearer
// token.
func knows(r *http.Request, password string) bool {
	_, given, basic := r.BasicAuth()
	if !basic {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		given = strings.TrimSpace(token)
	}
	// Compare hashes, so that the time of the comparison does not reveal the length.
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// index lists the pages, for people who open the port in a browser.
func (e *endpoints) index(w http.ResponseWriter, r *http.Request) {
	if e.leads(r) {
		http.Redirect(w, r, dashboardPath, http.StatusSeeOther)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "limitdb %s\n\n", e.source.Snapshot().Version)
	b.WriteString("/metrics        metrics for Prometheus\n")
	b.WriteString("/livez          200 while the server makes progress\n")
	b.WriteString("/readyz         200 while decisions are served")
	if e.board {
		b.WriteString("\n/dashboard/     what the server does now, for browsers")
	}
	if e.decide {
		b.WriteString("\n/v1/take        decisions: POST a JSON object with a limit\n")
		b.WriteString("/v1/check       decisions under rules\n")
		b.WriteString("/auth           decisions for reverse proxies")
	}
	if e.pprof && Local(r) {
		b.WriteString("\n/debug/pprof/   profiles")
	}
	plain(w, http.StatusOK, b.String())
}

// livez reports whether the server makes progress. A restart cures a process that hangs, but not one that is
// loading or overloaded.
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

// onlyLocal answers 404 to requests from other machines, as if the page did not exist.
func onlyLocal(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Local(r) {
			http.NotFound(w, r)
			return
		}
		next(w, r)
	})
}

// Local reports whether a request was made on this machine: it came from a loopback address to a listener
// bound to one. A proxy must not have forwarded it, and its Host must name this machine; that of a web page
// elsewhere whose own name resolves to 127.0.0.1 does not.
func Local(r *http.Request) bool {
	listener, _ := r.Context().Value(listenerKey{}).(net.Addr)
	if listener == nil || !loopbackHost(listener.String()) || !loopbackHost(r.RemoteAddr) {
		return false
	}
	return !forwarded(r) && loopbackHost(r.Host)
}

// loopbackHost reports whether "host:port" or "host" is the loopback of this machine. It looks up no names.
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

// listenerKey is the key under which a request's context has the address of its listener.
type listenerKey struct{}

func withListener(l net.Listener) context.Context {
	return context.WithValue(context.Background(), listenerKey{}, l.Addr())
}
