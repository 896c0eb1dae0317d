package envoyrls

import (
	"errors"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestHealth(t *testing.T) {
	var mu sync.Mutex
	var why error
	p := open(t, func(o *Options) {
		o.Ready = func() error { mu.Lock(); defer mu.Unlock(); return why }
	})
	p.guest.mu.Lock()
	p.guest.denies = errors.New("no password is needed for this")
	p.guest.mu.Unlock()
	c := healthpb.NewHealthClient(p.dial(insecure.NewCredentials()))
	for _, service := range []string{"", "envoy.service.ratelimit.v3.RateLimitService"} {
		if out, err := c.Check(patient(t), &healthpb.HealthCheckRequest{Service: service}); err != nil || out.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v %v", service, out, err)
		}
	}
	if _, err := c.Check(patient(t), &healthpb.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	watch, err := c.Watch(patient(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		if out, err := watch.Recv(); err != nil || out.Status != want {
			t.Fatalf("%v %v, want %v", out, err, want)
		}
		mu.Lock()
		why = errors.New("loading")
		mu.Unlock()
		p.Tick()
	}
	// A client that watches does not hold up the stop.
	if err := p.Shutdown(patient(t)); err != nil {
		t.Error(err)
	}
}
