package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"limitdb/resp"
)

// remote is a connection to a Redis or limitdb server, for pipelines of commands.
type remote struct {
	name string // for errors, without a password
	conn net.Conn
	r    *bufio.Reader
	out  []byte // commands that flush will send
	n    int    // their number
}

const (
	// remoteTimeout bounds the time of one pipeline.
	remoteTimeout = time.Minute
	// remoteReply bounds the size of one reply.
	remoteReply = 64 << 20
)

// errPasswordInURL is returned for a password where everybody on the machine can read it.
var errPasswordInURL = errors.New("give no password on the command line, where others can read it: set it in the environment")

// remoteFiles are the files for TLS; a name is "" if there is no such file.
type remoteFiles struct{ ca, cert, key string }

// openRemote connects to an address such as redis://user@host:6379/0 or, with TLS, rediss://host. The password
// is in the variable env, or is asked for on a terminal.
func openRemote(address, env string, files remoteFiles) (*remote, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		return nil, fmt.Errorf("%q is not an address: write redis://host:port/db, or rediss:// for TLS", address)
	}
	if _, has := u.User.Password(); has {
		return nil, fmt.Errorf("%w %s", errPasswordInURL, env)
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "6379")
	}
	s := &remote{name: u.Scheme + "://" + host}
	if s.conn, err = net.DialTimeout("tcp", host, remoteTimeout); err != nil {
		return nil, err
	}
	if u.Scheme == "rediss" {
		config, err := files.config(u.Hostname())
		if err != nil {
			return nil, errors.Join(err, s.conn.Close())
		}
		s.conn = tls.Client(s.conn, config)
	}
	s.r = bufio.NewReaderSize(s.conn, 64<<10)
	if err := s.begin(u, env); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", s.name, err), s.conn.Close())
	}
	return s, nil
}

// config returns the configuration for a connection to a host.
func (f remoteFiles) config(host string) (*tls.Config, error) {
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		b, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s has no certificate", f.ca)
		}
	}
	if f.cert == "" {
		return config, nil
	}
	own, err := tls.LoadX509KeyPair(f.cert, f.key)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	return config, err
}

// begin authenticates and selects the database.
func (s *remote) begin(u *url.URL, env string) error {
	password := os.Getenv(env)
	if password == "" {
		_, err := s.ask("PING")
		if err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
			if password, err = promptPassword(s.name, env); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	if password != "" {
		auth := []string{"AUTH", password}
		if user := u.User.Username(); user != "" {
			auth = []string{"AUTH", user, password}
		}
		if _, err := s.ask(auth...); err != nil {
			return err
		}
	}
	if db := strings.Trim(u.Path, "/"); db != "" && db != "0" {
		if _, err := s.ask("SELECT", db); err != nil {
			return err
		}
	}
	return nil
}

func promptPassword(name, env string) (string, error) {
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		return "", fmt.Errorf("it asks for a password: set it in the environment, as %s", env)
	}
	fmt.Fprintf(os.Stderr, "Password of %s: ", name)
	b, err := term.ReadPassword(in)
	fmt.Fprintln(os.Stderr)
	return string(b), err
}

func (s *remote) close() { _ = s.conn.Close() }

// add adds a command to the pipeline.
func (s *remote) add(words ...string) {
	s.out = resp.AppendCommand(s.out, words...)
	s.n++
}

// flush sends the pipeline and returns the replies to its commands.
func (s *remote) flush() ([]resp.Value, error) {
	if err := s.conn.SetDeadline(time.Now().Add(remoteTimeout)); err != nil {
		return nil, err
	}
	sent := make(chan error, 1) // a long pipeline is answered while it is sent
	go func(b []byte) {
		_, err := s.conn.Write(b)
		sent <- err
	}(s.out)
	n := s.n
	s.out, s.n = nil, 0
	replies := make([]resp.Value, 0, n)
	var err error
	for len(replies) < n && err == nil {
		var v resp.Value
		if v, err = resp.ReadReply(s.r, remoteReply); err == nil {
			replies = append(replies, v)
		}
	}
	if err != nil {
		_ = s.conn.SetDeadline(time.Unix(1, 0)) // the writer must end
	}
	if n := len(replies); err != nil && n > 0 && replies[n-1].Err() != nil {
		err = replies[n-1].Err() // the server has closed the connection and said why
	}
	if err = errors.Join(err, <-sent); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return replies, nil
}

// ask sends one command. An error reply is an error.
func (s *remote) ask(words ...string) (resp.Value, error) {
	s.add(words...)
	all, err := s.flush()
	if err != nil {
		return resp.Value{}, err
	}
	return all[0], all[0].Err()
}
