package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/internal/expiry"
)

// ClientAuth says whether clients must present a certificate.
type ClientAuth int

// The values of ClientAuth.
const (
	ClientAuthNo       ClientAuth = iota // clients are not asked for a certificate
	ClientAuthOptional                   // a certificate is optional, but must be valid
	ClientAuthYes                        // a valid certificate is required
)

// ParseClientAuth parses "no", "optional" or "yes".
func ParseClientAuth(s string) (ClientAuth, error) {
	for a := ClientAuthNo; a <= ClientAuthYes; a++ {
		if a.String() == s {
			return a, nil
		}
	}
	return 0, fmt.Errorf("%.*q is none of no, optional, yes", maxQuoted, s)
}

// String returns the text that ParseClientAuth parses.
func (a ClientAuth) String() string {
	switch a {
	case ClientAuthNo:
		return "no"
	case ClientAuthOptional:
		return "optional"
	case ClientAuthYes:
		return "yes"
	default:
		return fmt.Sprintf("ClientAuth(%d)", int(a))
	}
}

// TLSOptions names the certificate files, in PEM form.
type TLSOptions struct {
	CertFile   string     // the server's certificate, with its chain
	KeyFile    string     // its private key
	CAFile     string     // the authorities that sign clients' certificates; required unless ClientAuth is no
	ClientAuth ClientAuth // whether clients must present a certificate
}

// TLS holds certificates that can be replaced while connections are accepted. The minimum version is TLS 1.2.
type TLS struct {
	mu      sync.Mutex // guards opts and the order of reloads
	opts    TLSOptions
	current atomic.Pointer[tls.Config]
	http2   atomic.Pointer[tls.Config] // current, for connections that agree on HTTP/2
	expires atomic.Int64               // Unix seconds
}

// Expires returns when the certificate in use, or one of its chain, expires.
func (t *TLS) Expires() time.Time { return time.Unix(t.expires.Load(), 0) }

// LoadTLS reads the files. Its errors name the file.
func LoadTLS(o TLSOptions) (*TLS, error) {
	t := &TLS{}
	if err := t.Set(o); err != nil {
		return nil, err
	}
	return t, nil
}

// Set loads other files for connections accepted from now on. If it returns an error, it has changed nothing.
func (t *TLS) Set(o TLSOptions) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.load(o)
}

// Reload reads the files again for connections accepted from now on. If it returns an error, the old
// certificates stay in use.
func (t *TLS) Reload() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.load(t.opts)
}

// load reads the files and makes o current. The caller holds mu.
func (t *TLS) load(o TLSOptions) error {
	conf, err := o.config()
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	t.expires.Store(expiry.Of(conf.Certificates[0].Certificate...).Unix())
	t.opts = o
	http2 := conf.Clone()
	http2.NextProtos = []string{"h2"}
	t.current.Store(conf)
	t.http2.Store(http2)
	return nil
}

func (o TLSOptions) config() (*tls.Config, error) {
	certPEM, err := readPEM("certificate", o.CertFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readPEM("private key", o.KeyFile)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate %q with private key %q: %w", o.CertFile, o.KeyFile, err)
	}
	conf := &tls.Config{
		Certificates: []tls.Certificate{cert},
		MinVersion:   tls.VersionTLS12,
		// Batches of replies are sent as a few large records.
		DynamicRecordSizingDisabled: true,
	}
	switch o.ClientAuth {
	case ClientAuthNo:
		return conf, nil
	case ClientAuthOptional:
		conf.ClientAuth = tls.VerifyClientCertIfGiven
	case ClientAuthYes:
		conf.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		return nil, fmt.Errorf("client certificates: unknown setting %s", o.ClientAuth)
	}
	caPEM, err := readPEM("CA certificate", o.CAFile)
	if err != nil {
		return nil, err
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(caPEM) {
		return nil, fmt.Errorf("CA certificate %q: no certificate in it", o.CAFile)
	}
	// A ticket would admit a client whose CA has been removed since.
	conf.SessionTicketsDisabled = true
	return conf, nil
}

func readPEM(what, file string) ([]byte, error) {
	if file == "" {
		return nil, fmt.Errorf("%s: no file is given", what)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("%s %q: %w", what, file, err)
	}
	return b, nil
}

// Config returns a configuration for a listener of another kind, such as HTTP's. It always has the
// certificates that are current when a handshake begins.
func (t *TLS) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.server(false), nil },
	}
}

// server returns the configuration for one connection: the current one when its handshake begins.
func (t *TLS) server(http2 bool) *tls.Config {
	if http2 {
		return t.http2.Load()
	}
	return t.current.Load()
}
