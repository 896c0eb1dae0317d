package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"limitdb/config"
	"limitdb/envoyrls"
	"limitdb/transport"
)

// grpcPort is the gRPC port and its addresses.
type grpcPort struct {
	registry *config.Registry
	set      *config.Settings
	grpc     *envoyrls.Server
	ports    ports
}

// listenGRPC opens the gRPC port, unless it is 0.
func (p *process) listenGRPC(ctx context.Context, background *sync.WaitGroup) error {
	if p.set.GRPCPort.Get() == 0 {
		return nil
	}
	rls := &grpcPort{registry: p.registry, set: p.set}
	options := p.transportOptions()
	options.Refusal = nil // it is of RESP
	rls.grpc = envoyrls.New(envoyrls.Options{
		Begin: p.server.Begin, Ready: p.ready, Now: p.clock.Now, Headers: rls.headers, Reflection: p.set.GRPCReflection.Get(), Log: p.log,
		Enter: func(c transport.Conn) (envoyrls.Guest, error) { return p.server.Guests().Enter(c) },
		Longest: func() (word, all int64) {
			return p.set.ProtoMaxBulkLen.Get(), p.set.ClientQueryBufferLimit.Get()
		},
	}, options)
	if err := rls.listen(p.tls); err != nil {
		return err
	}
	background.Go(func() { every(ctx, envoyrls.TickEvery, rls.grpc.Tick) })
	p.rls = rls
	return nil
}

// endpoints returns the endpoints of the port.
func (p *grpcPort) endpoints() ([]endpoint, error) {
	plain, secure := p.set.GRPCPort.Get(), int64(0)
	if p.set.GRPCTLS.Get() {
		plain, secure = secure, plain
	}
	return endpoints(p.set.GRPCAddrs(), plain, secure)
}

// listen opens the port, and follows changes of the settings from then on.
func (p *grpcPort) listen(tls *transport.TLS) error {
	want, err := p.endpoints()
	if err != nil {
		return fmt.Errorf("grpc-port: %w", err)
	}
	p.ports = ports{group: p.grpc, tls: tls}
	if err := p.ports.listen(want); err != nil {
		return taken(fmt.Errorf("grpc port: %w", err), "--grpc-port N (0 for none)")
	}
	if len(p.grpc.Addrs()) == 0 {
		return errors.New("grpc-port: the machine has none of the addresses in " + p.bind().Name())
	}
	p.registry.OnChange(p.portsChanged, p.bind())
	p.registry.OnChange(func() error { return p.grpc.SetKeepAlive(keepAlive(p.set.TCPKeepalive.Get())) }, p.set.TCPKeepalive)
	return nil
}

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
