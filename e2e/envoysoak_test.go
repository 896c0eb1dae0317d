package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// figure returns a figure of the server's metrics.
func (p *proc) figure(t *testing.T, name string) int64 {
	t.Helper()
	for line := range strings.Lines(get("http://" + p.HTTPAddr + "/metrics")) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int64(f)
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// The parts of a round of TestEnvoySoak: connections, and of each the streams that are opened and closed and the requests.
const (
	soakConns    = 10
	soakStreams  = 100
	soakRequests = 200
)

// soakConn is one connection's part of a round. Every second one ends with the connection, before its streams.
func soakConn(ctx context.Context, addr string, conn *grpc.ClientConn, round, at int) (err error) {
	if at%2 == 1 {
		if conn, err = grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := openStreams(ctx, conn); err != nil {
		return err
	}
	for i := range soakRequests {
		caller := fmt.Sprint("10.0.", at, ".", (round*soakRequests+i)%10_000)
		in := &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("remote_address", caller)}}
		if out, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, in); err != nil || len(out.Statuses) != 1 || out.Statuses[0].CurrentLimit == nil {
			return fmt.Errorf("%v %w", out, err)
		}
	}
	return nil
}

// openStreams opens the streams of a connection, which last until ctx ends.
func openStreams(ctx context.Context, conn *grpc.ClientConn) error {
	for range soakStreams {
		watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A thousand open streams take little memory.
func TestMemoryOfStreams(t *testing.T) {
	t.Parallel()
	p, addr := envoyPort(t)
	before := p.RSS()
	for range soakConns {
		if err := openStreams(t.Context(), dialEnvoy(t, addr)); err != nil {
			t.Fatal(err)
		}
	}
	grown := p.RSS() - before
	t.Logf("%d kB resident, %d kB more with %d streams on %d connections", p.RSS()>>10, grown>>10, soakConns*soakStreams, soakConns)
	if most := int64(8 << 20); grown > most {
		t.Errorf("%d streams take %d bytes", soakConns*soakStreams, grown)
	}
}

// TestEnvoySoak makes 2 000 requests and opens and closes 1 000 streams in a round. With LIMITDB_RUN=1h there is a round a second for so long, and
// the memory must not grow after the first fifth.
func TestEnvoySoak(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("LIMITDB_RUN"))
	if err != nil {
		t.Parallel()
	}
	p, addr := envoyPort(t)
	dial(t, p.Addr).do("RL.RULES", "LOAD", "version: 1\nnamespaces: {edge: {descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 1000000}}]}}")
	var conns []*grpc.ClientConn
	for range soakConns {
		conns = append(conns, dialEnvoy(t, addr))
	}
	round := func(n int) {
		var wg sync.WaitGroup
		for i, c := range conns {
			wg.Go(func() {
				if err := soakConn(t.Context(), addr, c, n, i); err != nil {
					t.Errorf("round %d, connection %d: %v", n, i, err)
				}
			})
		}
		wg.Wait()
	}
	goroutines := func() int64 { return p.figure(t, "go_goroutines") }
	round(0)
	before := goroutines()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var early, late int64
	shown := time.Duration(0)
	for n, begin := 1, time.Now(); !t.Failed() && (n < 3 || time.Since(begin) < lasts); n++ {
		round(n)
		if lasts == 0 {
			continue
		}
		<-tick.C
		switch done, rss := time.Since(begin), p.RSS(); {
		case done < lasts/5:
		case done < 2*lasts/5:
			early = max(early, rss)
		case done > 4*lasts/5:
			late = max(late, rss)
		}
		if done := time.Since(begin); done >= shown {
			t.Logf("%v: %d rounds, %d kB resident, %d kB of heap, %d goroutines", done.Round(time.Second), n, p.RSS()>>10, p.figure(t, "go_memstats_heap_alloc_bytes")>>10, goroutines())
			shown += max(lasts/30, time.Second)
		}
	}
	if lasts >= 10*time.Minute && late > early+early/10 { // a short run only warms up
		t.Errorf("the memory grew from %d to %d bytes", early, late)
	}
	eventually(t, "the goroutines end", func() bool { return goroutines() <= before+2 })
	if got := dial(t, p.Addr).do("CLIENT", "LIST"); strings.Count(got, "laddr="+addr) > soakConns {
		t.Errorf("clients stay: %s", got)
	}
}
