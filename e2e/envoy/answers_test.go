package envoy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// service is the package of that service, of the version in go.mod.
const service = "github.com/envoyproxy/ratelimit/src/service_cmd"

// TestAnswersAreAlike asks that service, on a redis-server, and limitdb the same, over gRPC, one request after the other: random trees, descriptors,
// hits and limits of descriptors. All answers must be the same: the codes, the limits, what remains, and the resets. Both read one clock,
// which windows depend on; so no request is sent just before a second ends, and a tree whose request was under way then is left.
//
// LIMITDB_BINARY names a binary of limitdb that is built already, and LIMITDB_RATELIMIT one of that service.
func TestAnswersAreAlike(t *testing.T) {
	domains, each := 40, 50
	if long() {
		domains, each = 500, 200
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	files := filepath.Join(dir, "ratelimit", "config")
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	generators := make([]*generator, domains)
	for i := range generators {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(i))), alphabet: plain()}
		generators[i] = g
		if err := os.WriteFile(filepath.Join(files, fmt.Sprintf("d%d.yaml", i)), []byte(g.file(fmt.Sprint("d", i))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there, here := startTheirs(t, dir, "DISABLE_STATS=true"), startOurs(t, dir, files)
	asked, left, denied, limited := 0, 0, 0, 0
	for i, g := range generators {
		var before strings.Builder
		for range each {
			request := g.request(fmt.Sprint("d", i))
			waitForRoom()
			second := time.Now().Unix()
			a, errA := there.ShouldRateLimit(context.Background(), request)
			b, errB := here.ShouldRateLimit(context.Background(), request)
			if time.Now().Unix() != second {
				left++
				break
			}
			asked++
			if x, y := answer(request, a, errA), answer(request, b, errB); x != y {
				text, _ := os.ReadFile(filepath.Join(files, fmt.Sprintf("d%d.yaml", i)))
				t.Fatalf("%s\n%s%v\nthere %s\nhere  %s", text, before.String(), request, x, y)
			}
			fmt.Fprintf(&before, "%v\n      %s\n", request, answer(request, a, errA))
			if a.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT {
				denied++
			}
			for _, s := range a.GetStatuses() {
				if s.CurrentLimit != nil {
					limited++
				}
			}
		}
	}
	t.Logf("%d trees, %d requests alike, of which %d were denied; %d descriptors had a limit; %d trees were left", domains, asked, denied, limited, left)
	if asked < domains*each/2 || denied == 0 || limited == 0 {
		t.Error("too little was compared")
	}
}

// room is how long before the end of a second no request is sent.
const room = 30 * time.Millisecond

// waitForRoom returns when the second is not about to end.
func waitForRoom() {
	if to := time.Second - time.Duration(time.Now().Nanosecond()); to < room {
		time.Sleep(to + time.Millisecond)
	}
}

// request draws a request. Limits of descriptors are 1 or more, since a limit of 0 counts nothing here and would show once it is raised. They are for
// keys of their own, each with one unit: there, counters whose windows
// begin at once are one, whatever their units are.
func (g *generator) request(domain string) *rls.RateLimitRequest {
	if g.one(50) {
		domain = "unknown"
	}
	r := &rls.RateLimitRequest{Domain: domain}
	if g.one(3) {
		r.HitsAddend = uint32(pick(g.Rand, []int{0, 1, 2, 3, 7, 50, 1 << 31}))
	}
	for range 1 + g.IntN(4) {
		d := &pb.RateLimitDescriptor{}
		for _, e := range g.entries() {
			d.Entries = append(d.Entries, &pb.RateLimitDescriptor_Entry{Key: e.key, Value: e.value})
		}
		if g.one(3) {
			d.HitsAddend = wrapperspb.UInt64(uint64(pick(g.Rand, []int{0, 0, 1, 2, 4, 100, 1 << 40})))
		}
		if g.one(6) {
			unit := 1 + g.IntN(6)
			d.Entries = append(d.Entries, &pb.RateLimitDescriptor_Entry{Key: fmt.Sprint("own", unit), Value: "v"})
			d.Limit = &pb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(1 + g.IntN(6)), Unit: typev3.RateLimitUnit(unit)}
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// answer describes an answer, but for the codes of looks at a limit of 0: there, those before the first request of a window are
// OK and those after it are not; here all are OK.
func answer(request *rls.RateLimitRequest, r *rls.RateLimitResponse, err error) string {
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	overall := rls.RateLimitResponse_OK
	for i, s := range r.Statuses {
		overall = max(overall, s.Code)
		if hits := request.Descriptors[i].HitsAddend; hits != nil && hits.Value == 0 && s.CurrentLimit != nil && s.CurrentLimit.RequestsPerUnit == 0 {
			b.WriteString("; a look at a limit of 0")
			continue
		}
		fmt.Fprintf(&b, "; %s limit %d %s %q remaining %d", s.Code, s.CurrentLimit.GetRequestsPerUnit(), s.CurrentLimit.GetUnit(), s.CurrentLimit.GetName(), s.LimitRemaining)
		if s.CurrentLimit == nil {
			b.WriteString(" none")
		}
		if s.DurationUntilReset != nil {
			fmt.Fprintf(&b, " reset %v", s.DurationUntilReset.AsDuration())
		}
	}
	if overall != r.OverallCode {
		fmt.Fprintf(&b, "; %s in all", r.OverallCode)
	}
	return b.String()
}

// startTheirs starts that service on a redis-server. figures says what happens to its figures.
func startTheirs(t *testing.T, dir string, figures ...string) rls.RateLimitServiceClient {
	t.Helper()
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	binary := os.Getenv("LIMITDB_RATELIMIT")
	if binary == "" {
		binary = filepath.Join(dir, "service_cmd")
		build(t, ".", binary, service)
	}
	port := freePort(t)
	start(t, dir, nil, redis, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	await(t, port)
	grpcPort := freePort(t)
	start(t, dir, append(figures,
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:"+port, "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"HOST=127.0.0.1", "PORT="+freePort(t), "GRPC_HOST=127.0.0.1", "GRPC_PORT="+grpcPort, "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+freePort(t), "LOG_LEVEL=error",
	), binary)
	return client(t, grpcPort)
}

// startOurs starts limitdb, with more directives.
func startOurs(t *testing.T, dir, files string, more ...string) rls.RateLimitServiceClient {
	t.Helper()
	binary := os.Getenv("LIMITDB_BINARY")
	if binary == "" {
		binary = filepath.Join(dir, "limitdb")
		build(t, "../..", binary, "./cmd/limitdb")
	}
	port := freePort(t)
	start(t, dir, nil, binary, append([]string{
		"--port", freePort(t), "--http-port", "0", "--grpc-port", port, "--bind", "127.0.0.1", "--appendonly", "no", "--save", "",
		"--dir", filepath.Join(dir, "data"), "--envoy-rules-dir", files,
	}, more...)...)
	return client(t, port)
}

// build builds a program.
func build(t *testing.T, dir, to, what string) {
	t.Helper()
	c := exec.Command("go", "build", "-o", to, what)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, out)
	}
}

// start starts a program until the test ends.
func start(t *testing.T, dir string, environ []string, name string, args ...string) {
	t.Helper()
	var out strings.Builder
	c := exec.Command(name, args...)
	// What this test is told is no directive of limitdb.
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LIMITDB_") })
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, append(own, environ...), &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(name), out.String())
		}
	})
}

// patience bounds the wait for a program that starts.
const patience = 2 * time.Minute

// ports is how many ports freePort has tried.
var ports int

// freePort returns a port of 127.0.0.1 that nobody listens on. It returns each port once, and none that the kernel gives to clients.
func freePort(t *testing.T) string {
	t.Helper()
	for range 20_000 {
		ports++
		port := strconv.Itoa(10_000 + (os.Getpid()*499+ports)%20_000)
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// await waits until a port answers.
func await(t *testing.T, port string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return
		}
	}
	t.Fatalf("nobody answers on port %s", port)
}

// client connects to a gRPC port, and waits until the service behind it is ready.
func client(t *testing.T, port string) rls.RateLimitServiceClient {
	t.Helper()
	c, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		h, err := healthpb.NewHealthClient(c).Check(context.Background(), &healthpb.HealthCheckRequest{})
		if err == nil && h.Status == healthpb.HealthCheckResponse_SERVING {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("nobody is ready on port %s: %v %v", port, h, err)
		}
	}
	return rls.NewRateLimitServiceClient(c)
}
