package transport

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTLSOptionsErrors(t *testing.T) {
	c := newCerts(t)
	good := c.server("localhost", ClientAuthYes)
	c.issue("other", "other")
	if err := os.WriteFile(c.path("junk"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(o *TLSOptions)
		is     error
		text   string
	}{
		{"no certificate", func(o *TLSOptions) { o.CertFile = "" }, nil, "TLS: certificate: no file is given"},
		{"certificate missing", func(o *TLSOptions) { o.CertFile = "/no/such.crt" }, os.ErrNotExist, `TLS: certificate "/no/such.crt": no such file or directory`},
		{"key missing", func(o *TLSOptions) { o.KeyFile = "/no/such.key" }, os.ErrNotExist, `TLS: private key "/no/such.key": no such file or directory`},
		{"key is a directory", func(o *TLSOptions) { o.KeyFile = c.dir }, syscall.EISDIR, "is a directory"},
		{"certificate is junk", func(o *TLSOptions) { o.CertFile = c.path("junk") }, nil, fmt.Sprintf("TLS: certificate %q with private key", c.path("junk"))},
		{"key of another", func(o *TLSOptions) { o.KeyFile = c.path("other.key") }, nil, "private key does not match public key"},
		{"no CA", func(o *TLSOptions) { o.CAFile = "" }, nil, "TLS: CA certificate: no file is given"},
		{"CA is junk", func(o *TLSOptions) { o.CAFile = c.path("junk") }, nil, fmt.Sprintf("TLS: CA certificate %q: no certificate in it", c.path("junk"))},
		{"client authentication", func(o *TLSOptions) { o.ClientAuth = 9 }, nil, "unknown setting ClientAuth(9)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := good
			tc.change(&o)
			_, err := LoadTLS(o)
			if err == nil || !strings.Contains(err.Error(), tc.text) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%v, want %q", err, tc.text)
			}
		})
	}
	if _, err := LoadTLS(good); err != nil {
		t.Error(err)
	}
}

func TestParseClientAuth(t *testing.T) {
	for _, a := range []ClientAuth{ClientAuthNo, ClientAuthOptional, ClientAuthYes} {
		if got, err := ParseClientAuth(a.String()); err != nil || got != a {
			t.Errorf("%v, %v; want %v", got, err, a)
		}
	}
	if _, err := ParseClientAuth("Yes"); err == nil || err.Error() != `"Yes" is none of no, optional, yes` {
		t.Error(err)
	}
}

// listenTLS serves echo sessions. It returns a channel with the reasons for which they end.
func listenTLS(t *testing.T, conf *TLS, o Options) (addr string, ends chan error) {
	t.Helper()
	ends = make(chan error, 16)
	g := New(handlerFunc(func(c Conn) Session {
		f := &funcs{t: t, conn: c, closed: ends}
		echo(f)
		return f
	}), o)
	t.Cleanup(func() { _ = g.Close(t.Context()) })
	if err := g.Listen("tcp", "127.0.0.1:0", conf); err != nil {
		t.Fatal(err)
	}
	return g.Addrs()[0].String(), ends
}

func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(deadline))
	return c
}

func TestTLSReload(t *testing.T) {
	certs := newCerts(t)
	conf, err := LoadTLS(certs.server("first", ClientAuthNo))
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := listenTLS(t, conf, Options{})
	name := func() string {
		c := certs.client(dialRaw(t, addr))
		ping(t, c)
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	old := certs.client(dialRaw(t, addr))
	ping(t, old)
	certs.issue("server", "second")
	if n := name(); n != "first" {
		t.Errorf("certificate of %s before Reload", n)
	}
	if err := conf.Reload(); err != nil {
		t.Fatal(err)
	}
	if n := name(); n != "second" {
		t.Errorf("certificate of %s after Reload", n)
	}
	certs.write("server.key", "EC PRIVATE KEY", []byte("junk"))
	if err := conf.Reload(); err == nil {
		t.Error("a bad key was loaded")
	}
	if n := name(); n != "second" {
		t.Errorf("certificate of %s after a failed Reload", n)
	}
	if err := conf.Set(TLSOptions{CertFile: "/no/such"}); err == nil {
		t.Error("a missing certificate was set")
	}
	certs.issue("server", "third")
	if err := conf.Reload(); err != nil {
		t.Errorf("a failed Set changed the files: %v", err)
	}
	if n := name(); n != "third" {
		t.Errorf("certificate of %s at the end", n)
	}
	ping(t, old)
}

func TestClientCertificates(t *testing.T) {
	trusted, strangers := newCerts(t), newCerts(t)
	trusted.issue("client", "good")
	strangers.issue("client", "bad")
	load := func(c *certs) []tls.Certificate {
		pair, err := tls.LoadX509KeyPair(c.path("client.crt"), c.path("client.key"))
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{pair}
	}
	shown := map[string][]tls.Certificate{"none": nil, "good": load(trusted), "bad": load(strangers)}
	for _, tc := range []struct {
		auth ClientAuth
		cert string
		ok   bool
	}{
		{ClientAuthNo, "none", true},
		{ClientAuthNo, "bad", true},
		{ClientAuthOptional, "none", true},
		{ClientAuthOptional, "good", true},
		{ClientAuthOptional, "bad", false},
		{ClientAuthYes, "none", false},
		{ClientAuthYes, "good", true},
		{ClientAuthYes, "bad", false},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(fmt.Sprintf("%s %s %s", tc.auth, tc.cert, tls.VersionName(version)), func(t *testing.T) {
				conf, err := LoadTLS(trusted.server("localhost", tc.auth))
				if err != nil {
					t.Fatal(err)
				}
				addr, ends := listenTLS(t, conf, Options{})
				c := tls.Client(dialRaw(t, addr), &tls.Config{
					RootCAs: trusted.pool, ServerName: "localhost", MaxVersion: version,
					// The client sends it whether or not the server says that it would accept it.
					GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
						if list := shown[tc.cert]; list != nil {
							return &list[0], nil
						}
						return &tls.Certificate{}, nil
					},
				})
				if tc.ok {
					ping(t, c)
					return
				}
				_, _ = io.WriteString(c, "ping")
				// The alert arrives; a reset would hide it.
				if _, err := c.Read(make([]byte, 4)); err == nil || !strings.Contains(err.Error(), "remote error: tls:") {
					t.Errorf("the client was told %v", err)
				}
				_ = c.Close()
				if err := receive(t, ends); !errors.Is(err, ErrHandshake) {
					t.Errorf("closed with %v", err)
				}
			})
		}
	}
}

func TestWrongProtocol(t *testing.T) {
	certs := newCerts(t)
	conf, err := LoadTLS(certs.server("localhost", ClientAuthNo))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("plain on a TLS port", func(t *testing.T) {
		addr, ends := listenTLS(t, conf, Options{})
		c := dialRaw(t, addr)
		_, _ = io.WriteString(c, "*1\r\n$4\r\nPING\r\n")
		if b, err := io.ReadAll(c); err != nil || bytes.Contains(b, []byte("PING")) {
			t.Errorf("read %q, %v", b, err)
		}
		_ = c.Close()
		if err := receive(t, ends); !errors.Is(err, ErrNotTLS) || !strings.Contains(err.Error(), `"*1\r\n$"`) {
			t.Errorf("closed with %v", err)
		}
	})
	t.Run("TLS on a plain port", func(t *testing.T) {
		addr, _ := listenTLS(t, nil, Options{}) // the session echoes the hello
		if err := certs.client(dialRaw(t, addr)).Handshake(); err == nil {
			t.Error("a handshake with an echo")
		}
	})
	t.Run("TLS 1.1", func(t *testing.T) {
		addr, ends := listenTLS(t, conf, Options{})
		c := tls.Client(dialRaw(t, addr), &tls.Config{
			RootCAs: certs.pool, ServerName: "localhost",
			MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
		})
		if err := c.Handshake(); err == nil || !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("handshake: %v", err)
		}
		_ = c.Close()
		if err := receive(t, ends); !errors.Is(err, ErrHandshake) {
			t.Errorf("closed with %v", err)
		}
	})
	t.Run("silence", func(t *testing.T) {
		addr, ends := listenTLS(t, conf, Options{HandshakeTimeout: 10 * time.Millisecond})
		c := dialRaw(t, addr)
		_, _ = io.WriteString(c, "\x16\x03\x01")
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
		_ = c.Close()
		if err := receive(t, ends); !errors.Is(err, ErrHandshakeTimeout) {
			t.Errorf("closed with %v", err)
		}
	})
	t.Run("end in the handshake", func(t *testing.T) {
		addr, ends := listenTLS(t, conf, Options{})
		_ = dialRaw(t, addr).Close()
		if err := receive(t, ends); !errors.Is(err, ErrHandshake) {
			t.Errorf("closed with %v", err)
		}
	})
}

// What a session writes before the handshake is complete is sent first after it.
func TestWriteBeforeTheHandshake(t *testing.T) {
	fx := start(t, driver{network: "tcp", tls: true}, Options{}, func(f *funcs) {
		f.conn.Write([]byte("wel"))
		f.conn.Write([]byte("come"))
		if n := f.conn.Pending(); n != 7 {
			t.Errorf("Pending is %d", n)
		}
	})
	p, f := fx.dial()
	var b [7]byte
	if _, err := io.ReadFull(p, b[:]); err != nil || string(b[:]) != "welcome" {
		t.Errorf("read %q, %v", b, err)
	}
	if n := f.conn.Pending(); n != 0 {
		t.Errorf("Pending is %d", n)
	}
}

// Records that arrive byte by byte are put together.
func TestTLSRecordsInPieces(t *testing.T) {
	certs := newCerts(t)
	conf, err := LoadTLS(certs.server("localhost", ClientAuthNo))
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := listenTLS(t, conf, Options{})
	c := certs.client(dribble{dialRaw(t, addr)})
	for range 20 {
		ping(t, c)
	}
}

// dribble writes each byte by itself.
type dribble struct{ net.Conn }

func (d dribble) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := d.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// Many records that arrive together are all delivered.
func TestManyTLSRecords(t *testing.T) {
	fx := start(t, driver{network: "tcp", tls: true}, Options{}, echo)
	p, _ := fx.dial()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	go func() {
		for i := 0; i < len(sent); i += 64 {
			_, _ = p.Write(sent[i : i+64]) // one record each
		}
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(p, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%v, or other bytes came back", err)
	}
}
