package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"limitdb/config"
	"limitdb/dashboard"
	"limitdb/httpapi"
	"limitdb/observe"
	"limitdb/rules"
	"limitdb/transport"
)

// endpoint is one address of the RESP ports.
type endpoint struct {
	addr     string // host:port
	tls      bool
	optional bool // it is no error if the machine does not have it
}

// listener is the part of transport.Group that listens.
type listener interface {
	Listen(network, addr string, t *transport.TLS) error
	Unlisten(addr string)
}

// ports has the endpoints that the server listens on. Once the server runs, the registry's lock guards it.
type ports struct {
	group listener
	tls   *transport.TLS
	open  []endpoint
}

// lookupTime bounds the time of looking up a host's addresses.
const lookupTime = 5 * time.Second

// resolve replaces each host name by its addresses.
func resolve(all []config.Addr) ([]config.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	var out []config.Addr
	for _, a := range all {
		if _, err := netip.ParseAddr(a.Host); err == nil || a.Host == "" {
			out = append(out, a)
			continue
		}
		found, err := net.DefaultResolver.LookupHost(ctx, a.Host)
		if err != nil && !a.Optional {
			return nil, fmt.Errorf("bind: %w", err)
		}
		for _, ip := range found {
			out = append(out, config.Addr{Host: ip, Optional: a.Optional})
		}
	}
	return out, nil
}

// endpoints returns the endpoints of addresses at a port and, with TLS, at another one, each 0 for none.
func endpoints(all []config.Addr, plain, secure int64) (out []endpoint, err error) {
	addrs, err := resolve(all)
	for _, a := range addrs {
		for i, port := range [...]int64{plain, secure} {
			e := endpoint{net.JoinHostPort(a.Host, strconv.FormatInt(port, 10)), i == 1, a.Optional}
			if port != 0 && !slices.ContainsFunc(out, e.same) {
				out = append(out, e)
			}
		}
	}
	return out, err
}

// endpoints returns the endpoints that bind, port and tls-port name.
func (p *process) endpoints() ([]endpoint, error) {
	return endpoints(p.set.Addrs(), p.set.Port.Get(), p.set.TLSPort.Get())
}

// httpEndpoints returns the endpoints of the HTTP port.
func (p *process) httpEndpoints() ([]endpoint, error) {
	return endpoints(p.set.HTTPAddrs(), p.set.HTTPPort.Get(), 0)
}

// same reports whether e and other have the same address.
func (e endpoint) same(other endpoint) bool { return e.addr == other.addr }

// without returns the endpoints of all that are not in others.
func without(all, others []endpoint) []endpoint {
	return slices.DeleteFunc(slices.Clone(all), func(e endpoint) bool { return slices.ContainsFunc(others, e.same) })
}

// listen listens on all endpoints or, if it returns an error, on none.
func (p *ports) listen(all []endpoint) error {
	before := p.open
	for _, e := range all {
		tls := p.tls
		if !e.tls {
			tls = nil
		}
		err := p.group.Listen("tcp", e.addr, tls)
		if err != nil && e.optional && noSuchAddress(err) {
			continue
		}
		if err != nil {
			p.unlisten(without(p.open, before))
			return err
		}
		p.open = append(p.open, e)
	}
	return nil
}

// taken adds what to do to the error that another process uses the port.
func taken(err error, option string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: the port is taken; choose another with %s", err, option)
	}
	return err
}

func (p *ports) unlisten(all []endpoint) {
	for _, e := range all {
		p.group.Unlisten(e.addr)
	}
	p.open = without(p.open, all)
}

// move listens on exactly the endpoints in want, and reports whether those were others before. If it returns an error,
// nothing has changed.
func (p *ports) move(want []endpoint) (moved bool, err error) {
	old := without(p.open, want)
	if len(old)+len(without(want, p.open)) == 0 {
		return false, nil // Set restores the old values
	}
	err = p.listen(without(want, p.open))
	if errors.Is(err, syscall.EADDRINUSE) && len(old) > 0 {
		// A new address may include an old one: the wildcard includes all.
		p.unlisten(old)
		if err = p.listen(without(want, p.open)); err != nil {
			return false, errors.Join(err, p.listen(old))
		}
		return true, nil
	}
	if err == nil {
		p.unlisten(old)
	}
	return err == nil, err
}

// noSuchAddress reports whether err means that the machine has no such address (for example, with IPv6 turned
// off).
func noSuchAddress(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}

var errNothingToListenOn = errors.New("nothing to listen on: port and tls-port are 0 and unixsocket is empty, or the machine has none of the addresses in bind")

// listen opens the RESP ports and the unix socket, and follows changes of the settings from then on.
func (p *process) listen() error {
	want, err := p.endpoints()
	if err != nil {
		return err
	}
	p.ports = ports{group: p.group, tls: p.tls}
	if err := p.ports.listen(want); err != nil {
		return taken(err, "--port N")
	}
	if path := p.set.UnixSocket.Get(); path != "" {
		if err := p.group.Listen("unix", path, nil); err != nil {
			return err
		}
	}
	if len(p.group.Addrs()) == 0 {
		return errNothingToListenOn
	}
	p.registry.OnChange(p.portsChanged, p.set.Port, p.set.Bind)
	p.registry.OnChange(func() error { return p.group.SetKeepAlive(keepAlive(p.set.TCPKeepalive.Get())) }, p.set.TCPKeepalive)
	return nil
}

func (p *process) portsChanged() error {
	want, err := p.endpoints()
	if err != nil {
		return err
	}
	if len(want) == 0 && p.set.UnixSocket.Get() == "" {
		return errNothingToListenOn
	}
	moved, err := p.ports.move(want)
	if moved {
		p.log.Info("the addresses have changed", "addresses", p.addresses())
	}
	return err
}

// listenHTTP opens the HTTP port, unless it is 0.
func (p *process) listenHTTP(ctx context.Context, background *sync.WaitGroup) error {
	port := p.set.HTTPPort.Get()
	if port == 0 {
		return nil
	}
	want, err := p.httpEndpoints()
	if err != nil {
		return fmt.Errorf("http-port: %w", err)
	}
	o := observe.Options{
		Pprof: p.set.Pprof.Get(), Log: p.log, Password: p.set.HTTPPassword.Get, Guesses: new(observe.Guesses),
		Hosts: p.httpHosts, AuthHosts: p.authHosts, Protected: p.set.ProtectedMode.Get,
		Source: observe.Source{Snapshot: p.snapshot, Ready: p.ready, Live: p.live},
	}
	if p.set.HTTPDecisions.Get() {
		trusted := p.trusted()
		o.Decisions = p.decisions(trusted)
		o.Proxy = func(a netip.Addr) bool {
			return slices.ContainsFunc(trusted(), func(n netip.Prefix) bool { return n.Contains(a) })
		}
	}
	if p.set.HTTPDashboard.Get() {
		board := p.dashboard(o.Guesses)
		o.Dashboard = board
		background.Go(func() { board.Run(ctx) })
	}
	if p.set.HTTPTLS.Get() {
		o.TLS = p.tls.Config()
	}
	h, err := observe.Listen(o)
	if err != nil {
		return err
	}
	p.httpPorts = ports{group: httpListener{h}}
	if err := p.httpPorts.listen(want); err != nil {
		return taken(err, "--http-port N (0 for none)")
	}
	if len(h.Addrs()) == 0 {
		return errors.New("http-port: the machine has none of the addresses in " + p.httpBind().Name())
	}
	p.http = h
	p.sayWhatIsOpen(h.Addrs())
	p.registry.OnChange(p.httpPortsChanged, p.httpBind())
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

// httpBind returns the directive with the addresses of the HTTP port.
func (p *process) httpBind() *config.Words {
	if len(p.set.HTTPBind.Get()) > 0 {
		return p.set.HTTPBind
	}
	return p.set.Bind
}

// httpPortsChanged makes the HTTP port follow bind.
func (p *process) httpPortsChanged() error {
	want, err := p.httpEndpoints()
	if err != nil {
		return err
	}
	moved, err := p.httpPorts.move(want)
	if moved {
		p.sayWhatIsOpen(p.http.Addrs())
	}
	return err
}

// trusted returns a function that returns the networks in http-trusted-proxies.
func (p *process) trusted() func() []netip.Prefix {
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
func (p *process) decisions(trusted func() []netip.Prefix) http.Handler {
	return httpapi.New(httpapi.Options{
		Do:      p.server.Do,
		Trusted: trusted,
		Closed:  func() bool { return p.set.ProtectedMode.Get() && p.set.HTTPPassword.Get() == "" },
		Log:     p.log,
	})
}

// dashboard returns the handler of the dashboard.
func (p *process) dashboard(guesses *observe.Guesses) *dashboard.Dashboard {
	return dashboard.New(dashboard.Options{
		Snapshot: p.snapshot, Ready: p.ready, Do: p.server.Do, Now: time.Now, SetMode: p.setRuleMode,
		Password: p.set.HTTPPassword.Get, Hosts: p.httpHosts, Port: p.tcpPort, Log: p.log, Guesses: guesses,
	})
}

// httpHosts returns the names under which browsers may open pages: those of http-hosts, and this machine's.
func (p *process) httpHosts() []string {
	names := p.set.HTTPHosts.Get()
	if name, err := os.Hostname(); err == nil {
		names = append(slices.Clone(names), name)
	}
	return names
}

// authHosts returns the names under which proxies may ask /auth, none for any: http-hosts then has no names.
func (p *process) authHosts() []string {
	if len(p.set.HTTPHosts.Get()) == 0 {
		return nil
	}
	return p.httpHosts()
}

// setRuleMode gives a rule the mode of that name.
func (p *process) setRuleMode(ctx context.Context, namespace, rule, mode string) error {
	m, ok := rules.ParseMode(mode)
	if !ok {
		return errors.New("mode must be enforce, shadow or off")
	}
	return p.server.SetRuleMode(ctx, namespace, rule, m)
}

// sayWhatIsOpen logs which pages of the HTTP port other machines can reach.
func (p *process) sayWhatIsOpen(addrs []net.Addr) {
	open := beyondThisMachine(addrs)
	if len(open) == 0 {
		return
	}
	pages := "/metrics /livez /readyz"
	if p.set.HTTPDecisions.Get() {
		p.log.Info("the HTTP port makes decisions", "addresses", open, "/auth", "for "+strings.Join(p.set.HTTPTrustedProxies.Get(), " "))
		if !p.set.ProtectedMode.Get() {
			pages += " /v1/take /v1/check"
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

// tcpPort returns the actual port, which differs from the directive if that is 0.
func (p *process) tcpPort() int {
	for _, a := range p.group.Addrs() {
		if t, ok := a.(*net.TCPAddr); ok {
			return t.Port
		}
	}
	return 0
}

func (p *process) addresses() []string {
	var out []string
	for _, a := range p.group.Addrs() {
		out = append(out, a.String())
	}
	if p.http != nil {
		scheme := "http://"
		if p.set.HTTPTLS.Get() {
			scheme = "https://"
		}
		for _, a := range p.http.Addrs() {
			out = append(out, scheme+a.String())
		}
	}
	return out
}
