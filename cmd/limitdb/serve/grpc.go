package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"limitdb/config"
	"limitdb/envoyrls"
	"limitdb/server"
	"limitdb/transport"
)

// grpcPort is the gRPC port and its addresses.
type grpcPort struct {
	registry *config.Registry
	set      *config.Settings
	log      *slog.Logger
	server   *server.Server
	tls      *transport.TLS
	ready    func() error
	grpc     *envoyrls.Server
	ports    ports
}

// listenGRPC opens the gRPC port, unless it is 0.
func (p *process) listenGRPC(background *sync.WaitGroup) error {
	if p.set.GRPCPort.Get() == 0 {
		return nil
	}
	rls := &grpcPort{registry: p.registry, set: p.set, log: p.log, server: p.server, tls: p.tls, ready: p.ready}
	if err := rls.listen(background); err != nil {
		return err
	}
	p.rls = rls
	return nil
}

// endpoints returns the endpoints of the port.
func (p *grpcPort) endpoints() ([]endpoint, error) {
	return endpoints(p.set.GRPCAddrs(), p.set.GRPCPort.Get(), 0)
}

// listen opens the port, and follows changes of the settings from then on.
func (p *grpcPort) listen(background *sync.WaitGroup) error {
	want, err := p.endpoints()
	if err != nil {
		return fmt.Errorf("grpc-port: %w", err)
	}
	o := envoyrls.Options{
		Do: p.server.Do, Ready: p.ready, Headers: p.headers, Reflection: p.set.GRPCReflection.Get(), Log: p.log,
		Enter: func(c net.Conn) (envoyrls.Guest, error) { return p.server.Guests().Enter(c, p.set.GRPCTLS.Get()) },
		Longest: func() (word, all int64) {
			return p.set.ProtoMaxBulkLen.Get(), p.set.ClientQueryBufferLimit.Get()
		},
	}
	if p.set.GRPCTLS.Get() {
		o.TLS = p.tls.Config()
	}
	g := envoyrls.New(o)
	p.ports = ports{group: grpcListener{g}}
	if err := p.ports.listen(want); err != nil {
		return taken(err, "--grpc-port N (0 for none)")
	}
	if len(g.Addrs()) == 0 {
		return errors.New("grpc-port: the machine has none of the addresses in " + p.bind().Name())
	}
	p.grpc = g
	p.registry.OnChange(p.portsChanged, p.bind())
	background.Go(func() {
		if err := g.Serve(); err != nil {
			p.log.Error("the gRPC port has failed", "err", err)
		}
	})
	return nil
}

// grpcListener makes the gRPC port a listener.
type grpcListener struct{ *envoyrls.Server }

func (g grpcListener) Listen(_, addr string, _ *transport.TLS) error { return g.Add(addr) }

func (g grpcListener) Unlisten(addr string) { g.Remove(addr) }

// bind returns the directive with the addresses of the port.
func (p *grpcPort) bind() *config.Words {
	if len(p.set.GRPCBind.Get()) > 0 {
		return p.set.GRPCBind
	}
	return p.set.Bind
}

// portsChanged makes the port follow bind.
func (p *grpcPort) portsChanged() error {
	want, err := p.endpoints()
	if err != nil {
		return err
	}
	_, err = p.ports.move(want)
	return err
}

// headers returns which header fields responses have.
func (p *grpcPort) headers() envoyrls.Headers {
	switch p.set.GRPCHeaders.Get() {
	case "draft-3":
		return envoyrls.Draft3
	case "draft-11":
		return envoyrls.Draft11
	}
	return envoyrls.NoHeaders
}

// drainFor is how long calls over gRPC are still answered while their clients learn that the server stops.
const drainFor = time.Second / 4

// drain stops the port. It returns once all its calls are answered, or after drainFor; the channel then receives nil, or the error that says
// that calls were cut off. Without a port nothing is to be done.
func (p *grpcPort) drain(ctx context.Context) <-chan error {
	drained := make(chan error, 1)
	if p == nil {
		drained <- nil
		return drained
	}
	done := make(chan struct{})
	go func() {
		drained <- p.grpc.Shutdown(ctx)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drainFor):
	case <-ctx.Done():
	}
	return drained
}
