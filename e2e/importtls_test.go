package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// limitdb import speaks TLS with a private authority and with a client certificate, logs in as a user, reads one
// database, and asks for passwords on a terminal.
func TestImportByTLS(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "server")
	own, ownKey := certificate(t, dir, "own")
	port := freePort(t)
	cmd := exec.Command("redis-server", "--port", "0", "--tls-port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir,
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", own, "--tls-auth-clients", "yes")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr := net.JoinHostPort("127.0.0.1", port)
	config := trust(t, cert)
	pair, err := tls.LoadX509KeyPair(own, ownKey)
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{pair}
	source := goredis.NewClient(&goredis.Options{Addr: addr, TLSConfig: config, Protocol: 2, DB: 3})
	defer source.Close()
	eventually(t, "redis-server answers", func() bool { return source.Ping(ctx).Err() == nil })
	source.Set(ctx, "count", 5, time.Hour)
	other := goredis.NewClient(&goredis.Options{Addr: addr, TLSConfig: config, Protocol: 2})
	defer other.Close()
	other.Set(ctx, "elsewhere", 1, 0)
	if err := source.Do(ctx, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+@connection", "+time", "+memory|usage").Err(); err != nil {
		t.Fatal(err)
	}
	if err := source.Do(ctx, "ACL", "SETUSER", "default", "resetpass").Err(); err != nil {
		t.Fatal(err)
	}

	tlsPort := freePort(t)
	p := start(t, "--tls-port", tlsPort, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "yes", "--tls-ca-cert-file", own)
	target := goredis.NewClient(&goredis.Options{Addr: p.Addr, Protocol: 2})
	defer target.Close()
	args := func(more ...string) []string {
		return append([]string{"import", "--from", "rediss://reader@" + addr + "/3", "--to", "rediss://127.0.0.1:" + tlsPort}, more...)
	}
	for _, tt := range []struct {
		password, want string
		args           []string
	}{
		{"secret", "certificate", args()},
		{"secret", "certificate", args("--cacert", cert)},
		{"wrong", "WRONGPASS", args("--cacert", cert, "--cert", own, "--key", ownKey)},
		{"secret", "[cert key]", args("--cacert", cert, "--cert", own)},
	} {
		got := runEnv(t, []string{"LIMITDB_FROM_PASSWORD=" + tt.password}, "", plainBinary(t), tt.args...)
		if got.Code == 0 || !strings.Contains(got.Stderr, tt.want) {
			t.Errorf("%q: %+v", tt.args, got)
		}
	}
	term := openTerminal(t, plainBinary(t), args("--cacert", cert, "--cert", own, "--key", ownKey)...)
	term.press("", "Password of rediss://"+addr+": ")
	if shown := term.press("secret\r", "1 keys of the source are there"); strings.Contains(shown, "secret") {
		t.Errorf("the terminal has shown the password: %q", shown)
	}
	if n, left := target.Get(ctx, "count").Val(), target.TTL(ctx, "count").Val(); n != "5" || left < 59*time.Minute {
		t.Errorf("count is %q for %v", n, left)
	}
	if n := target.Exists(ctx, "elsewhere").Val(); n != 0 {
		t.Error("a key of another database was copied")
	}
}

// An import whose source dies half-way reports it, and the next import copies the rest, even while keys come, go and
// change.
func TestImportThatIsCut(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, source := startRedis(t, "secret")
	target := start(t)
	const keys = 5000
	p := source.Pipeline()
	for i := range keys {
		p.Set(ctx, fmt.Sprint("count:", i), strings.Repeat("x", 50), time.Hour)
	}
	if _, err := p.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	copyFrom := func(addr string) result {
		return runEnv(t, []string{"LIMITDB_FROM_PASSWORD=secret"}, "", plainBinary(t), "import", "--from", "redis://"+addr, "--to", "redis://"+target.Addr)
	}
	if got := copyFrom(cut(t, from, 150_000)); got.Code == 0 || !strings.Contains(got.Stderr, "redis://127.0.0.1") || !strings.Contains(got.Stdout, "carried") {
		t.Errorf("a source that dies: %+v", got)
	}
	half := one(t, target.Addr, "DBSIZE").Int
	if half == 0 || half == keys {
		t.Fatalf("%d keys were copied before the source died", half)
	}

	source.Incr(ctx, "busy")
	loading, stop := context.WithCancel(ctx)
	var load sync.WaitGroup
	load.Go(func() {
		for i := 0; loading.Err() == nil; i++ {
			p, k := source.Pipeline(), fmt.Sprint("live:", i%500)
			p.Incr(ctx, fmt.Sprint("count:new:", i))
			p.Del(ctx, k)
			if i%2 == 0 {
				p.RPush(ctx, k, i)
			} else {
				p.Set(ctx, k, i, time.Hour)
			}
			p.Incr(ctx, "busy")
			_, _ = p.Exec(ctx)
		}
	})
	got := copyFrom(from)
	stop()
	load.Wait()
	if got.Code != 0 {
		t.Errorf("under load: %+v", got)
	}
	for i := range keys {
		if v := one(t, target.Addr, "GET", fmt.Sprint("count:", i)); len(v.Text) != 50 {
			t.Fatalf("count:%d is %+v", i, v)
		}
	}
	if v := one(t, target.Addr, "GET", "busy"); v.Text == "" {
		t.Error("busy was not copied")
	}
	// Once nothing changes any more, nothing is missing.
	if got := copyFrom(from); got.Code != 0 || one(t, target.Addr, "DBSIZE").Int < source.DBSize(ctx).Val() {
		t.Errorf("in the end: %+v", got)
	}
}

// cut returns the address of a proxy that passes on so many bytes of a server's replies, and then closes the connection.
func cut(t *testing.T, addr string, bytes int64) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		server, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer server.Close()
		go func() { _, _ = io.Copy(server, c) }()
		_, _ = io.CopyN(c, server, bytes)
	}()
	return l.Addr().String()
}
