package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const password = "correct horse battery staple"

// certificate writes a self-signed certificate for 127.0.0.1 and localhost to dir, and returns the paths of
// the certificate and of its key. It is its own authority.
func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:         true, BasicConstraintsValid: true,
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &priv.PublicKey, priv)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	writePEM(t, cert, "CERTIFICATE", der)
	writePEM(t, key, "PRIVATE KEY", keyDER)
	return cert, key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	b := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// trust returns a TLS configuration that trusts the certificate in the file.
func trust(t *testing.T, cert string) *tls.Config {
	t.Helper()
	b, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		t.Fatalf("no certificate in %s", cert)
	}
	return &tls.Config{RootCAs: pool}
}

// fixture is what every client is tested with: a server with a plain and a TLS port, and one with a password.
type fixture struct {
	open, locked *proc
	tlsPort      string
	cert         string
}

func startFixture(t *testing.T) *fixture {
	t.Helper()
	cert, key := certificate(t, t.TempDir(), "server")
	f := &fixture{cert: cert, tlsPort: freePort(t)}
	f.open = start(t, "--tls-port", f.tlsPort, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "no")
	f.locked = start(t, "--requirepass", password)
	return f
}

// env returns the environment that describes the fixture to client programs. key is the prefix of the keys
// that they may use.
func (f *fixture) env(key string) []string {
	return []string{
		"LIMITDB_HOST=127.0.0.1",
		"LIMITDB_PORT=" + f.open.Port(),
		"LIMITDB_AUTH_PORT=" + f.locked.Port(),
		"LIMITDB_TLS_PORT=" + f.tlsPort,
		"LIMITDB_PASSWORD=" + password,
		"LIMITDB_CA=" + f.cert,
		"LIMITDB_KEY=" + key,
	}
}

// The checks that every client program passes; some pass more. A program prints a line "ok NAME" for each
// check.
var everyClient = []string{"ping", "throttle", "take", "error", "setname", "pipeline", "reconnect", "auth", "wrongpass"}

// TestClients drives the server with the client libraries of other languages.
func TestClients(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		line func(t *testing.T) []string
		also []string
	}{
		{"ioredis 5", node("ioredis.js", "ioredis5"), []string{"resp2", "tls"}},
		{"ioredis 6", node("ioredis.js", "ioredis6"), []string{"resp3", "tls"}},
		{"node-redis 4", node("redis.js", "redis4"), []string{"resp2", "tls"}},
		{"node-redis 6", node("redis.js", "redis6"), []string{"resp3", "tls"}},
		{"redis-py", script("/usr/bin/python3", "import redis", "-c", "python/client.py"), []string{"tls", "asyncio", "noauth"}},
		{"hiredis", hiredis, []string{"kill", "closed", "noauth"}},
		{"redis-rb", script("ruby", "require 'redis'", "-e", "ruby/client.rb"), []string{"tls"}},
		{"phpredis", script("php", "exit(extension_loaded('redis') ? 0 : 1);", "-r", "php/phpredis.php"), []string{"tls", "kill"}},
		{"predis", script("php", "require 'Predis/Autoloader.php';", "-r", "php/predis.php"), []string{"tls", "kill", "closed"}},
		{"Perl Redis", script("perl", "use Redis", "-e", "perl/client.pl"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			line := tt.line(t)
			// Its own fixture, since failed logins are limited by address.
			f := startFixture(t)
			r := runEnv(t, f.env("e2e"), "", line[0], line[1:]...)
			if r.Code != 0 {
				t.Fatalf("exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			want := slices.Sorted(slices.Values(append(slices.Clone(everyClient), tt.also...)))
			got := passed(r.Stdout)
			if !slices.Equal(got, want) {
				t.Errorf("passed %v, want %v\n%s", got, want, r.Stderr)
			}
		})
	}
}

// passed returns the names in the lines "ok NAME", sorted.
func passed(out string) []string {
	var names []string
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "ok "); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// script returns a function for the command line of a program in clients/. The function first asks the
// interpreter whether it has the library.
func script(interpreter, probe, probeFlag, path string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		bin := need(t, interpreter)
		if out, err := exec.Command(bin, probeFlag, probe).CombinedOutput(); err != nil {
			lacking(t, "%s lacks its client library: %s", interpreter, out)
		}
		return []string{bin, filepath.Join("clients", path)}
	}
}

// node returns a function for the command line of a program that uses one of the libraries in
// clients/node/package.json.
func node(path, library string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		bin := need(t, "node")
		if _, err := os.Stat(filepath.Join("clients/node/node_modules", library)); err != nil {
			lacking(t, "no %s: run `npm ci` in e2e/clients/node", library)
		}
		return []string{bin, filepath.Join("clients/node", path), library}
	}
}

// hiredis compiles the C program.
func hiredis(t *testing.T) []string {
	gcc := need(t, "gcc")
	if _, err := os.Stat("/usr/include/hiredis/hiredis.h"); err != nil {
		lacking(t, "hiredis/hiredis.h: Debian's libhiredis-dev is not installed")
	}
	bin := filepath.Join(t.TempDir(), "client")
	r := run(t, "", gcc, "-Wall", "-Werror", "-o", bin, "clients/c/client.c", "-lhiredis")
	if r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	return []string{bin}
}
