package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"limitdb/config"
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
	if p.web != nil {
		out = append(out, p.web.addresses()...)
	}
	if p.rls != nil {
		for _, a := range p.rls.grpc.Addrs() {
			out = append(out, "grpc://"+a.String())
		}
	}
	return out
}
