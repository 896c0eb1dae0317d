package envoyrls

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"limitdb/transport"
)

func TestAsk(t *testing.T) {
	p := open(t, func(o *Options) { o.Headers = func() Headers { return Draft3 } })
	out, err := p.plain().ShouldRateLimit(patient(t), ask("edge", 2, desc("ip", "a")))
	if got, want := describe(out, err), `OK; OK 3/MINUTE "ip" 2 left, 40 s; RateLimit-Limit: 3; RateLimit-Remaining: 2; RateLimit-Reset: 40`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	p.mu.Lock()
	if p.ran[0] != "RL.ENVOY edge 1 1 ip a HITS 2" {
		t.Errorf("ran %q", p.ran)
	}
	p.mu.Unlock()
	p.guest.until(t, "after the call", func() bool { return p.guest.waits == 0 && p.guest.holds == 0 })
}

func TestBadRequests(t *testing.T) {
	p := open(t, nil)
	c := p.plain()
	many := make([]string, 40_000)
	for name, call := range map[string]struct {
		in   *rls.RateLimitRequest
		want codes.Code
	}{
		"no domain":          {ask("", 0, desc()), codes.InvalidArgument},
		"10 000 descriptors": {ask("edge", 0, repeated(10_000)...), codes.InvalidArgument},
		"a value of 1 MB":    {ask("edge", 0, desc("ip", strings.Repeat("x", 1<<20))), codes.InvalidArgument},
		"more than 1 MB":     {ask("edge", 0, desc(filled(many, strings.Repeat("x", 30))...)), codes.InvalidArgument},
		"more than 4 MB":     {ask("edge", 0, desc("ip", strings.Repeat("x", 5<<20))), codes.ResourceExhausted},
	} {
		_, err := c.ShouldRateLimit(patient(t), call.in)
		if status.Code(err) != call.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := p.commands(); n != 0 {
		t.Errorf("%d commands ran", n)
	}
	if _, err := c.ShouldRateLimit(patient(t), ask("edge", 0, desc())); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAuthorization(t *testing.T) {
	p := open(t, nil)
	c := p.plain()
	for _, given := range []string{"", "Basic YWxpY2U6c2VjcmV0", "basic OnNlY3JldA==", "Bearer secret", "Basic !", "Digest x", "Basic YWxpY2U="} {
		ctx := patient(t)
		if given != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", given)
		}
		if _, err := c.ShouldRateLimit(ctx, ask("edge", 0, desc())); err != nil {
			t.Errorf("%s: %v", given, err)
		}
	}
	want := []string{"nothing", "alice:secret", "default:secret", "default:secret", "nothing", "nothing", "nothing"}
	p.guest.mu.Lock()
	if strings.Join(p.guest.asked, " ") != strings.Join(want, " ") {
		t.Errorf("asked %q, want %q", p.guest.asked, want)
	}
	p.guest.denies = errors.New("the user or the password is wrong")
	p.guest.mu.Unlock()
	if _, err := c.ShouldRateLimit(patient(t), ask("edge", 0, desc())); status.Code(err) != codes.Unauthenticated || p.commands() != 7 {
		t.Errorf("denied: %v, and %d commands", err, p.commands())
	}
}

// TestDeadlines asks when the deadline is over, and gives up while a command waits.
func TestDeadlines(t *testing.T) {
	stuck := make(chan struct{})
	p := open(t, func(o *Options) {
		begin := o.Begin
		o.Begin = func(ctx context.Context, args [][]byte) ([]byte, func(context.Context) ([]byte, error)) {
			if string(args[1]) == "stuck" {
				close(stuck)
				return nil, wait(nil)
			}
			return begin(ctx, args)
		}
	})
	ctx, cancel := context.WithCancel(patient(t))
	go func() { <-stuck; cancel() }()
	c := p.plain()
	if _, err := c.ShouldRateLimit(ctx, ask("stuck", 0, desc())); status.Code(err) != codes.Canceled {
		t.Errorf("stuck: %v", err)
	}
	p.guest.until(t, "after the call", func() bool { return p.guest.waits == 0 && p.guest.holds == 0 })
	if _, err := c.ShouldRateLimit(patient(t), ask("edge", 0, desc())); err != nil || p.commands() != 1 {
		t.Errorf("afterwards: %v, and %d commands", err, p.commands())
	}
}

func TestDoor(t *testing.T) {
	p := open(t, func(o *Options) {
		o.Enter = func(transport.Conn) (Guest, error) { return nil, errors.New("too many") }
	})
	if _, err := p.plain().ShouldRateLimit(patient(t), ask("edge", 0, desc())); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// TestShutdown stops the port while a call is answered: it is let end, and is cut off once the time is over.
func TestShutdown(t *testing.T) {
	for _, late := range []bool{false, true} {
		begun, end := make(chan struct{}), make(chan struct{})
		p := open(t, func(o *Options) {
			o.Begin = func(context.Context, [][]byte) ([]byte, func(context.Context) ([]byte, error)) {
				close(begun)
				return nil, wait(end)
			}
		})
		answered := make(chan error, 1)
		c := p.plain()
		go func() {
			_, err := c.ShouldRateLimit(patient(t), ask("edge", 0, desc()))
			answered <- err
		}()
		<-begun
		ctx, cancel := context.WithCancel(patient(t))
		stopped := make(chan error, 1)
		go func() { stopped <- p.Shutdown(ctx) }()
		p.guest.until(t, "the stop", p.stopping.Load)
		if late {
			cancel()
		} else {
			close(end)
		}
		if err := <-stopped; errors.Is(err, context.Canceled) != late {
			t.Errorf("late %v: the stop says %v", late, err)
		}
		if err := <-answered; (err != nil) != late {
			t.Errorf("late %v: the call says %v", late, err)
		}
		cancel()
		if err := p.Listen("tcp", "127.0.0.1:0", nil); err == nil {
			t.Error("a stopped port listens")
		}
	}
}

// TestAddresses adds and removes addresses while the port serves.
func TestAddresses(t *testing.T) {
	p := open(t, nil)
	if err := p.Listen("tcp", p.addr, nil); err == nil {
		t.Error("one address twice")
	}
	if err := p.Listen("tcp", "localhost:0", nil); err != nil {
		t.Fatal(err)
	}
	first := p.addr
	p.addr = p.Addrs()[1].String()
	if _, err := p.plain().ShouldRateLimit(patient(t), ask("edge", 0, desc())); err != nil {
		t.Error(err)
	}
	p.Unlisten("localhost:0")
	if all := p.Addrs(); len(all) != 1 || all[0].String() != first {
		t.Errorf("left: %v", all)
	}
	if c, err := net.Dial("tcp", p.addr); err == nil {
		_ = c.Close()
		t.Error("a removed address listens")
	}
}

func repeated(n int) (all []*common.RateLimitDescriptor) {
	for range n {
		all = append(all, desc())
	}
	return all
}

func filled(list []string, with string) []string {
	for i := range list {
		list[i] = with
	}
	return list
}
