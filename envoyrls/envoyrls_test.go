package envoyrls

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"limitdb/transport"
)

const patience = 20 * time.Second

// granted is the reply for one descriptor that is granted.
const granted = "*2\r\n:0\r\n*1\r\n*6\r\n:0\r\n:3\r\n$6\r\nMINUTE\r\n$2\r\nip\r\n:2\r\n:40\r\n"

// fakeGuest keeps what the port tells the server of a connection.
type fakeGuest struct {
	mu     sync.Mutex // guards all below
	now    int64
	waits  int64
	holds  int64
	most   int64
	left   bool
	denies error
	asked  []string
	names  []string // of certificates
}

func (g *fakeGuest) May(user, password []byte, given bool) (context.Context, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if given {
		g.asked = append(g.asked, string(user)+":"+string(password))
	} else {
		g.asked = append(g.asked, "nothing")
	}
	return context.Background(), g.denies
}

func (g *fakeGuest) Certified(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.names = append(g.names, name)
}

func (g *fakeGuest) Begins() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	return g.now
}

func (g *fakeGuest) Waits(since int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits = since
}

func (g *fakeGuest) Holds(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds, g.most = n, max(g.most, n)
}

func (g *fakeGuest) Leave(error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = true
}

// until waits until a condition on the guest holds.
func (g *fakeGuest) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		g.mu.Lock()
		yes := ok()
		g.mu.Unlock()
		if yes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: waits %d, holds %d, left %v", what, g.waits, g.holds, g.left)
		}
	}
}

// port is a running port with fakes behind it.
type port struct {
	*Server
	t     *testing.T
	addr  string
	guest *fakeGuest // of all connections
	mu    sync.Mutex // guards ran
	ran   []string   // the commands
	now   atomic.Int64
}

// open opens a port whose options are changed first.
func open(t *testing.T, change func(*Options)) *port {
	t.Helper()
	return openTLS(t, nil, change)
}

// openTLS is open for a port that speaks TLS.
func openTLS(t *testing.T, secure *transport.TLS, change func(*Options)) *port {
	t.Helper()
	p := &port{t: t, guest: &fakeGuest{}}
	o := Options{
		Begin: func(_ context.Context, args [][]byte) ([]byte, func(context.Context) ([]byte, error)) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ran = append(p.ran, string(bytes.Join(args, []byte(" "))))
			return []byte(granted), nil
		},
		Enter:   func(transport.Conn) (Guest, error) { return p.guest, nil },
		Longest: func() (int64, int64) { return 64 << 10, 1 << 20 },
		Ready:   func() error { return nil },
		Now:     func() int64 { return p.now.Load() },
	}
	if change != nil {
		change(&o)
	}
	p.Server = New(o, transport.Options{})
	if err := p.Listen("tcp", "127.0.0.1:0", secure); err != nil {
		t.Fatal(err)
	}
	p.addr = p.Addrs()[0].String()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Shutdown(ctx) // it may have ended already
	})
	return p
}

// commands returns how many commands have run.
func (p *port) commands() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ran)
}

// dial returns a connection to the port.
func (p *port) dial(c credentials.TransportCredentials) *grpc.ClientConn {
	p.t.Helper()
	conn, err := grpc.NewClient(p.addr, grpc.WithTransportCredentials(c), grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (p *port) plain() rls.RateLimitServiceClient {
	return rls.NewRateLimitServiceClient(p.dial(insecure.NewCredentials()))
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

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

// wait is what Options.Begin returns for a command that waits until its context ends, or end is closed.
func wait(end chan struct{}) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		select {
		case <-end:
			return []byte(granted), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
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

// raw is a client that speaks HTTP/2 by hand.
type raw struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
	buf bytes.Buffer
	enc *hpack.Encoder
}

func (p *port) raw() *raw {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	r := &raw{t: p.t, conn: conn, Framer: http2.NewFramer(conn, conn)}
	r.enc = hpack.NewEncoder(&r.buf)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		p.t.Fatal(err)
	}
	r.must(r.WriteSettings())
	go func() { // what the server says is not looked at
		b := make([]byte, 4096)
		for {
			if _, err := conn.Read(b); err != nil {
				return
			}
		}
	}()
	return r
}

func (r *raw) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// begin begins a call.
func (r *raw) begin(stream uint32) {
	r.t.Helper()
	r.buf.Reset()
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		r.must(r.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	r.must(r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: r.buf.Bytes(), EndHeaders: true}))
}

// part sends the beginning of a message of 4 MB.
func (r *raw) part(stream uint32, bytes int) {
	r.t.Helper()
	b := make([]byte, 5+bytes)
	b[2] = 0x3f // 4 MB, nearly
	for len(b) > 0 {
		n := min(len(b), 16<<10)
		r.must(r.WriteData(stream, false, b[:n]))
		b = b[n:]
	}
}

// TestResetStreams begins calls, sends parts of their messages, and resets them.
func TestResetStreams(t *testing.T) {
	p := open(t, nil)
	r := p.raw()
	const streams = 1000
	for i := range uint32(streams) {
		r.begin(2*i + 1)
		if i < 50 {
			r.part(2*i+1, 16<<10)
		}
	}
	p.guest.until(t, "partial", func() bool { return p.guest.waits != 0 && p.guest.holds >= 50*16<<10 })
	for i := range uint32(streams) {
		r.must(r.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
	}
	p.guest.until(t, "reset", func() bool { return p.guest.waits == 0 && p.guest.holds == 0 })
	if p.commands() != 0 {
		t.Error("a command ran")
	}
	if _, err := p.plain().ShouldRateLimit(patient(t), ask("edge", 0, desc())); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestSlowClient sends most of a message and then leaves.
func TestSlowClient(t *testing.T) {
	p := open(t, nil)
	r := p.raw()
	r.begin(1)
	r.part(1, 60<<10)
	p.guest.until(t, "partial", func() bool { return p.guest.waits > 0 && p.guest.holds >= 60<<10 })
	_ = r.conn.Close()
	p.guest.until(t, "gone", func() bool { return p.guest.left && p.guest.waits == 0 && p.guest.holds == 0 })
}

// TestGarbage sends what is no HTTP/2.
func TestGarbage(t *testing.T) {
	p := open(t, nil)
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "*1\r\n$4\r\nPING\r\n", strings.Repeat("\x00", 100), http2.ClientPreface + strings.Repeat("\xff", 1000)} {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(text)) // it may be closed already
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		for b := make([]byte, 1024); err == nil; {
			_, err = conn.Read(b)
		}
		if e, ok := err.(net.Error); ok && e.Timeout() {
			t.Errorf("%q: the connection stays", text)
		}
		_ = conn.Close()
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

func TestReflection(t *testing.T) {
	for _, on := range []bool{false, true} {
		p := open(t, func(o *Options) { o.Reflection = on })
		stream, err := reflectionpb.NewServerReflectionClient(p.dial(insecure.NewCredentials())).ServerReflectionInfo(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		err = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService",
		}})
		if err == nil || errors.Is(err, io.EOF) { // the call may be over already
			_, err = stream.Recv()
		}
		if on != (err == nil) || !on && status.Code(err) != codes.Unimplemented {
			t.Errorf("%v: %v", on, err)
		}
		_ = stream.CloseSend()
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

// certificate returns a certificate of its own for localhost.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "app"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// files writes a certificate to files in a new folder, and returns their names.
func files(t *testing.T, c tls.Certificate) transport.TLSOptions {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	o := transport.TLSOptions{CertFile: filepath.Join(t.TempDir(), "cert.pem"), KeyFile: filepath.Join(t.TempDir(), "key.pem")}
	for name, block := range map[string]*pem.Block{o.CertFile: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, o.KeyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// load loads files of certificates.
func load(t *testing.T, o transport.TLSOptions) *transport.TLS {
	t.Helper()
	secure, err := transport.LoadTLS(o)
	if err != nil {
		t.Fatal(err)
	}
	return secure
}

// TestTLS replaces the certificate between two connections.
func TestTLS(t *testing.T) {
	secure := load(t, files(t, certificate(t)))
	p := openTLS(t, secure, nil)
	connect := func() (der []byte) {
		t.Helper()
		c := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			der = raw[0]
			return nil
		}})
		if _, err := rls.NewRateLimitServiceClient(p.dial(c)).ShouldRateLimit(patient(t), ask("edge", 0, desc())); err != nil {
			t.Fatal(err)
		}
		return der
	}
	first, same := connect(), connect()
	if err := secure.Set(files(t, certificate(t))); err != nil {
		t.Fatal(err)
	}
	if second := connect(); !bytes.Equal(first, same) || bytes.Equal(first, second) {
		t.Error("the certificates are not those of the time of the connection")
	}
	if _, err := p.plain().ShouldRateLimit(patient(t), ask("edge", 0, desc())); status.Code(err) != codes.Unavailable {
		t.Errorf("without TLS: %v", err)
	}
}

// TestCertificate shows the name in a client's certificate, if that was verified.
func TestCertificate(t *testing.T) {
	own := certificate(t)
	for _, c := range []struct {
		auth transport.ClientAuth
		want string
	}{{transport.ClientAuthOptional, "app"}, {transport.ClientAuthNo, ""}} {
		o := files(t, certificate(t))
		o.CAFile, o.ClientAuth = files(t, own).CertFile, c.auth
		p := openTLS(t, load(t, o), nil)
		for _, with := range [][]tls.Certificate{{own}, nil} {
			conf := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: with})
			if _, err := rls.NewRateLimitServiceClient(p.dial(conf)).ShouldRateLimit(patient(t), ask("edge", 0, desc())); err != nil {
				t.Fatal(err)
			}
		}
		p.guest.mu.Lock()
		if got := strings.Join(p.guest.names, " "); got != c.want {
			t.Errorf("%v: %q", c.auth, got)
		}
		p.guest.mu.Unlock()
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
