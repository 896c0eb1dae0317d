package envoyrls

import (
	"bytes"
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
	"path/filepath"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"limitdb/transport"
)

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
