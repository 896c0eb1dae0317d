package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// envoyPort starts a server with a gRPC port, and returns it with the port's address.
func envoyPort(t *testing.T, args ...string) (*proc, string) {
	t.Helper()
	port := freePort(t)
	return start(t, append([]string{"--grpc-port", port}, args...)...), net.JoinHostPort("127.0.0.1", port)
}

// dialEnvoy returns a connection to a gRPC port without TLS.
func dialEnvoy(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// descriptor returns a descriptor of keys and values.
func descriptor(pairs ...string) *ratelimit.RateLimitDescriptor {
	d := &ratelimit.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// TestEnvoy takes over gRPC and over RESP from the limit of one rule.
func TestEnvoy(t *testing.T) {
	t.Parallel()
	p, addr := envoyPort(t)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	dial(t, p.Addr).do("RL.RULES", "LOAD", "version: 1\nnamespaces: {edge: [{name: ip, key: [remote_address], limit: fixed 3/d first}]}")
	conn := dialEnvoy(t, addr)
	client := rls.NewRateLimitServiceClient(conn)
	ask := func() *rls.RateLimitResponse {
		t.Helper()
		out, err := client.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("remote_address", "192.0.2.1")}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := ask()
	s := first.Statuses[0]
	if first.OverallCode != rls.RateLimitResponse_OK || s.CurrentLimit.RequestsPerUnit != 3 || s.CurrentLimit.Unit != rls.RateLimitResponse_RateLimit_DAY ||
		s.CurrentLimit.Name != "ip" || s.LimitRemaining != 2 || s.DurationUntilReset.GetSeconds() < 1 || s.DurationUntilReset.GetSeconds() > 86400 {
		t.Errorf("the first: %v", first)
	}
	if got := dial(t, p.Addr).do("RL.CHECK", "edge", "1", "remote_address", "192.0.2.1"); !strings.HasPrefix(got, "[:0 :3 :1 ") {
		t.Errorf("over RESP: %v", got)
	}
	if third := ask(); third.Statuses[0].LimitRemaining != 0 {
		t.Errorf("the third: %v", third)
	}
	if fourth := ask(); fourth.OverallCode != rls.RateLimitResponse_OVER_LIMIT || fourth.Statuses[0].Code != rls.RateLimitResponse_OVER_LIMIT {
		t.Errorf("the fourth: %v", fourth)
	}
	health, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil || health.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v %v", health, err)
	}
}

// TestEnvoyOnSeveralNodes asks a node that does not lead.
func TestEnvoyOnSeveralNodes(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	follower, port := nodes[2], freePort(t)
	follower.Stop()
	follower.args = append(follower.args, "--grpc-port", port)
	follower.restart(t)
	eventually(t, "the node is ready", func() bool { return get("http://"+follower.HTTPAddr+"/readyz") != "" })
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	leader(t, nodes).ask(t, "RL.RULES", "LOAD", "version: 1\nnamespaces: {edge: {descriptors: [{key: ip, rate_limit: {unit: year, requests_per_unit: 3}}]}}")
	client := rls.NewRateLimitServiceClient(dialEnvoy(t, net.JoinHostPort("127.0.0.1", port)))
	for left := 2; left >= 0; left-- {
		var out *rls.RateLimitResponse
		var err error
		eventually(t, "a node leads", func() bool {
			out, err = client.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("ip", "a")}})
			return status.Code(err) != codes.Unavailable
		})
		if err != nil || out.Statuses[0].LimitRemaining != uint32(left) {
			t.Fatalf("%v %v, want %d left", out, err, left)
		}
	}
	if got := leader(t, nodes).ask(t, "RL.ENVOY", "edge", "1", "1", "ip", "a"); !strings.HasPrefix(got, "[1 [[1 3 YEAR") {
		t.Errorf("the leader says %s", got)
	}
}

// TestEnvoyPassword asks without the password and with it.
func TestEnvoyPassword(t *testing.T) {
	t.Parallel()
	p, addr := envoyPort(t, "--requirepass", "secret", "--maxclients", "100")
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	client := rls.NewRateLimitServiceClient(dialEnvoy(t, addr))
	in := &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("ip", "a")}}
	if _, err := client.ShouldRateLimit(ctx, in); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a password: %v", err)
	}
	with := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer secret")
	if out, err := client.ShouldRateLimit(with, in); err != nil || out.OverallCode != rls.RateLimitResponse_OK || out.Statuses[0].CurrentLimit != nil {
		t.Errorf("an unknown domain: %v %v", out, err)
	}
	c := dial(t, p.Addr)
	c.do("AUTH", "secret")
	if list := c.do("CLIENT", "LIST"); !strings.Contains(list, "laddr="+addr) {
		t.Errorf("no client of the port in %s", list)
	}
}

// TestEnvoyTLS asks over TLS, and again after the certificate was replaced.
func TestEnvoyTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "first")
	_, addr := envoyPort(t, "--grpc-tls", "yes", "--tls-cert-file", cert, "--tls-key-file", key)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	shown := func() (der []byte) {
		t.Helper()
		c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			InsecureSkipVerify: true,
			VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
				der = raw[0]
				return nil
			},
		})))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := rls.NewRateLimitServiceClient(c).ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("ip", "a")}}); err != nil {
			t.Fatal(err)
		}
		return der
	}
	first := shown()
	newCert, newKey := certificate(t, dir, "second")
	for from, to := range map[string]string{newCert: cert, newKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the new certificate is shown", func() bool { return !bytes.Equal(first, shown()) })
}
