package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/config"
	"limitdb/dashboard"
	"limitdb/httpapi"
	"limitdb/observe"
	"limitdb/server"
	"limitdb/transport"
)

// httpPort is the HTTP port: its addresses, and the pages behind it.
type httpPort struct {
	registry *config.Registry
	set      *config.Settings
	log      *slog.Logger
	server   *server.Server
	tls      *transport.TLS
	source   observe.Source
	tcpPort  func() int // of the RESP ports
	http     *observe.Server
	ports    ports
}

// listenHTTP opens the HTTP port, unless it is 0.
func (p *process) listenHTTP(background *sync.WaitGroup) error {
	if p.set.HTTPPort.Get() == 0 {
		return nil
	}
	web := &httpPort{
		registry: p.registry, set: p.set, log: p.log, server: p.server, tls: p.tls, tcpPort: p.tcpPort,
		source: observe.Source{Snapshot: p.snapshot, Ready: p.ready, Live: p.live},
	}
	if err := web.listen(background); err != nil {
		return err
	}
	p.web = web
	return nil
}

// endpoints returns the endpoints of the port.
func (p *httpPort) endpoints() ([]endpoint, error) {
	return endpoints(p.set.HTTPAddrs(), p.set.HTTPPort.Get(), 0)
}

// listen opens the port, and follows changes of the settings from then on.
func (p *httpPort) listen(background *sync.WaitGroup) error {
	want, err := p.endpoints()
	if err != nil {
		return fmt.Errorf("http-port: %w", err)
	}
	o := observe.Options{
		Pprof: p.set.Pprof.Get(), Log: p.log, Password: p.set.HTTPPassword.Get, Guesses: new(observe.Guesses),
		Users: httpUsers{p.server}, Hosts: p.hosts, AuthHosts: p.authHosts, Protected: p.set.ProtectedMode.Get,
		Source: p.source,
	}
	if p.set.HTTPDecisions.Get() {
		trusted := p.trusted()
		o.Decisions = p.decisions(trusted)
		o.Proxy = func(a netip.Addr) bool {
			return slices.ContainsFunc(trusted(), func(n netip.Prefix) bool { return n.Contains(a) })
		}
	}
	if p.set.HTTPDashboard.Get() {
		o.Dashboard = p.dashboard(o.Guesses)
	}
	if p.set.HTTPTLS.Get() {
		o.TLS = p.tls.Config()
	}
	h, err := observe.Listen(o)
	if err != nil {
		return err
	}
	p.ports = ports{group: httpListener{h}}
	if err := p.ports.listen(want); err != nil {
		return taken(err, "--http-port N (0 for none)")
	}
	if len(h.Addrs()) == 0 {
		return errors.New("http-port: the machine has none of the addresses in " + p.bind().Name())
	}
	p.http = h
	p.sayWhatIsOpen(h.Addrs())
	p.registry.OnChange(p.portsChanged, p.bind())
	background.Go(func() {
		if err := h.Serve(); err != nil {
			p.log.Error("the HTTP port has failed", "err", err)
		}
	})
	return nil
}

// httpListener makes the HTTP port a listener.
type httpListener struct{ *observe.Server }

func (h httpListener) Listen(_, addr string, _ *transport.TLS) error { return h.Add(addr) }

func (h httpListener) Unlisten(addr string) { h.Remove(addr) }

// bind returns the directive with the addresses of the port.
func (p *httpPort) bind() *config.Words {
	if len(p.set.HTTPBind.Get()) > 0 {
		return p.set.HTTPBind
	}
	return p.set.Bind
}

// portsChanged makes the port follow bind.
func (p *httpPort) portsChanged() error {
	want, err := p.endpoints()
	if err != nil {
		return err
	}
	moved, err := p.ports.move(want)
	if moved {
		p.sayWhatIsOpen(p.http.Addrs())
	}
	return err
}

// trusted returns a function that returns the networks in http-trusted-proxies.
func (p *httpPort) trusted() func() []netip.Prefix {
	var trusted atomic.Pointer[[]netip.Prefix]
	changed := func() error {
		nets := p.set.TrustedProxies()
		trusted.Store(&nets)
		return nil
	}
	_ = changed() // it never fails
	p.registry.OnChange(changed, p.set.HTTPTrustedProxies)
	return func() []netip.Prefix { return *trusted.Load() }
}

// decisions returns the handler of decisions over HTTP.
func (p *httpPort) decisions(trusted func() []netip.Prefix) http.Handler {
	return httpapi.New(httpapi.Options{
		Do:      p.server.Do,
		Trusted: trusted,
		Closed: func(ctx context.Context) bool {
			return p.set.ProtectedMode.Get() && p.set.HTTPPassword.Get() == "" && !server.Signed(ctx)
		},
		Log: p.log,
	})
}

// dashboard returns the handler of the dashboard.
func (p *httpPort) dashboard(guesses *observe.Guesses) *dashboard.Dashboard {
	return dashboard.New(dashboard.Options{
		Snapshot: p.source.Snapshot, Ready: p.source.Ready, Do: p.server.Do, Now: time.Now,
		Password: p.set.HTTPPassword.Get, Users: httpUsers{p.server}, Hosts: p.hosts, Port: p.tcpPort, Log: p.log, Guesses: guesses,
	})
}

// hosts returns the names under which browsers may open pages: those of http-hosts, and this machine's.
func (p *httpPort) hosts() []string {
	names := p.set.HTTPHosts.Get()
	if name, err := os.Hostname(); err == nil {
		names = append(slices.Clone(names), name)
	}
	return names
}

// authHosts returns the names under which proxies may ask /auth, none for any: http-hosts then has no names.
func (p *httpPort) authHosts() []string {
	if len(p.set.HTTPHosts.Get()) == 0 {
		return nil
	}
	return p.hosts()
}

// sayWhatIsOpen logs which pages of the HTTP port other machines can reach.
func (p *httpPort) sayWhatIsOpen(addrs []net.Addr) {
	open := beyondThisMachine(addrs)
	if len(open) == 0 {
		return
	}
	pages := "/metrics /livez /readyz"
	if p.set.HTTPDecisions.Get() {
		p.log.Info("the HTTP port makes decisions", "addresses", open, "/auth", "for "+strings.Join(p.set.HTTPTrustedProxies.Get(), " "))
		if !p.set.ProtectedMode.Get() {
			pages += " /v1/"
		}
	}
	if p.set.HTTPPassword.Get() == "" {
		p.log.Warn("the HTTP port is open to other machines without a password: set http-password or http-password-file, or http-bind to 127.0.0.1",
			"addresses", open, "pages", pages)
	}
}

// beyondThisMachine returns the addresses that other machines can reach.
func beyondThisMachine(addrs []net.Addr) []string {
	var open []string
	for _, a := range addrs {
		if t, ok := a.(*net.TCPAddr); !ok || !t.IP.IsLoopback() {
			open = append(open, a.String())
		}
	}
	return open
}

// addresses returns the addresses of the port.
func (p *httpPort) addresses() (out []string) {
	scheme := "http://"
	if p.set.HTTPTLS.Get() {
		scheme = "https://"
	}
	for _, a := range p.http.Addrs() {
		out = append(out, scheme+a.String())
	}
	return out
}
