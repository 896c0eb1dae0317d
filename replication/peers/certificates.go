package peers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"limitdb/internal/expiry"
)

// CertificateFiles names the files, in PEM form, by which nodes know one another.
type CertificateFiles struct {
	// Cert is the node's certificate with its chain, Key its private key, CA the authorities that sign the certificates of all nodes.
	Cert, Key, CA string
}

// Certificates prove to the other nodes who this node is, and decide which nodes it trusts. A peer's certificate must
// be signed by an authority in CA and have the peer's raft-id among its DNS names. Both ends of a connection check the
// other.
type Certificates struct {
	files   CertificateFiles
	current atomic.Pointer[tls.Config]
	own, ca atomic.Int64 // when the certificate expires, and the first of the authorities, Unix seconds
}

// Expires returns when the certificate in use, or one of its chain, expires, and when the first of the authorities does.
func (c *Certificates) Expires() (own, authority time.Time) {
	return time.Unix(c.own.Load(), 0), time.Unix(c.ca.Load(), 0)
}

// LoadCertificates reads the files. Its errors name the file.
func LoadCertificates(f CertificateFiles) (*Certificates, error) {
	c := &Certificates{files: f}
	return c, c.Reload()
}

// Reload reads the files again, for connections made from now on. If it returns an error, the old certificates stay in use.
func (c *Certificates) Reload() error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("certificate %q with private key %q: %w", c.files.Cert, c.files.Key, err)
	}
	pem, err := os.ReadFile(c.files.CA)
	if err != nil {
		return fmt.Errorf("CA certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("CA certificate %q: no certificate in it", c.files.CA)
	}
	c.own.Store(expiry.Of(pair.Certificate...).Unix())
	c.ca.Store(expiry.Of(expiry.Decode(pem)...).Unix())
	c.current.Store(&tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
		SessionTicketsDisabled: true, // a ticket would admit a node whose authority has been removed since
	})
	return nil
}

// Check returns an error if the node's own certificate does not have the raft-id among its DNS names.
func (c *Certificates) Check(name string) error {
	leaf := c.current.Load().Certificates[0].Leaf
	if err := leaf.VerifyHostname(name); err != nil {
		return fmt.Errorf("certificate %q is not for this node: %w", c.files.Cert, err)
	}
	return nil
}

// toPeer returns the configuration of a connection to the node with a raft-id.
func (c *Certificates) toPeer(name string) *tls.Config {
	conf := c.current.Load().Clone()
	conf.ServerName = name
	return conf
}

// checkPeer returns an error unless the certificate that the other end has presented is one of the node with a raft-id.
func checkPeer(conn *tls.Conn, name string) error {
	all := conn.ConnectionState().PeerCertificates
	if len(all) == 0 {
		return errors.New("it presents no certificate")
	}
	return all[0].VerifyHostname(name)
}
