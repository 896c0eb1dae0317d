package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// ClientAuth says whether clients must show a certificate.
type ClientAuth int

// The values of ClientAuth.
const (
	ClientAuthNo       ClientAuth = iota // none is asked for
	ClientAuthOptional                   // one that is shown must be valid
	ClientAuthYes                        // a valid one must be shown
)

// ParseClientAuth reads "no", "optional" or "yes".
func ParseClientAuth(s string) (ClientAuth, error) {
	for a := ClientAuthNo; a <= ClientAuthYes; a++ {
		if a.String() == s {
			return a, nil
		}
	}
	return 0, fmt.Errorf("%.*q is none of no, optional, yes", maxQuoted, s)
}

// String is what ParseClientAuth reads.
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

// TLSOptions say where the certificates are, as files in PEM form.
type TLSOptions struct {
	CertFile   string     // the server's certificate, with its chain
	KeyFile    string     // its private key
	CAFile     string     // who signs clients' certificates; needed unless ClientAuth is no
	ClientAuth ClientAuth // whether clients must show a certificate
}

// TLS holds certificates that can be exchanged while connections are accepted.
// Version 1.2 is the least that is spoken.
type TLS struct {
	mu      sync.Mutex // guards opts and the order of reloads
	opts    TLSOptions
	current atomic.Pointer[tls.Config]
}

// LoadTLS reads the files. Its errors name the file.
func LoadTLS(o TLSOptions) (*TLS, error) {
	t := &TLS{}
	if err := t.Set(o); err != nil {
		return nil, err
	}
	return t, nil
}

// Set loads other files, for connections accepted from now on. On an error it
// changes nothing.
func (t *TLS) Set(o TLSOptions) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.load(o)
}

// Reload reads the files again, for connections accepted from now on. On an error the
// certificates read before stay in use.
func (t *TLS) Reload() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.load(t.opts)
}

// load makes o current. mu is held.
func (t *TLS) load(o TLSOptions) error {
	conf, err := o.config()
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	t.opts = o
	t.current.Store(conf)
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
		// Batches of replies go out as few large records.
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
	// A ticket would let in a client whose CA has been removed since.
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

// server is the configuration of one connection: what is current when it begins its handshake.
func (t *TLS) server() *tls.Config {
	return t.current.Load()
}
