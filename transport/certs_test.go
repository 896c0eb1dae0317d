package transport

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
	"path/filepath"
	"testing"
	"time"
)

// certs is a certificate authority in a temporary directory.
type certs struct {
	t    testing.TB
	dir  string
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	next int64
}

func newCerts(t testing.TB) *certs {
	t.Helper()
	c := &certs{t: t, dir: t.TempDir(), pool: x509.NewCertPool(), next: 2}
	var err error
	if c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &c.key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	c.pool.AddCert(c.ca)
	c.write("ca.crt", "CERTIFICATE", der)
	return c
}

func (c *certs) path(name string) string { return filepath.Join(c.dir, name) }

func (c *certs) write(name, kind string, der []byte) {
	c.t.Helper()
	b := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(c.path(name), b, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// issue makes file.crt and file.key for a name.
func (c *certs) issue(file, name string) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(c.next), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	c.next++
	der, err := x509.CreateCertificate(rand.Reader, tmpl, c.ca, &key.PublicKey, c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(file+".crt", "CERTIFICATE", der)
	c.write(file+".key", "EC PRIVATE KEY", keyDER)
}

// server issues a server's certificate and returns the options to load it.
func (c *certs) server(name string, auth ClientAuth) TLSOptions {
	c.t.Helper()
	c.issue("server", name)
	return TLSOptions{
		CertFile: c.path("server.crt"), KeyFile: c.path("server.key"),
		CAFile: c.path("ca.crt"), ClientAuth: auth,
	}
}

// client is a TLS client over raw that trusts the authority.
func (c *certs) client(raw net.Conn) *tls.Conn {
	return tls.Client(raw, &tls.Config{RootCAs: c.pool, ServerName: "localhost"})
}
