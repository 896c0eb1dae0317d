package peers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"limitdb/internal/testnet"
)

// authority signs certificates of nodes.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.crt", "CERTIFICATE", der)
	return a
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// files issues the certificate of a node, which is valid for some time from now on, and returns its files.
func (a *authority) files(name string, valid time.Duration) CertificateFiles {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "not " + name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".crt", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", pkcs8)
	return CertificateFiles{Cert: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key"), CA: filepath.Join(a.dir, "ca.crt")}
}

func (a *authority) issue(name string, valid time.Duration) *Certificates {
	a.t.Helper()
	c, err := LoadCertificates(a.files(name, valid))
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// format is the one that the peers of the tests read and write.
const format = 1

// peer is a layer without a node behind it.
type peer struct {
	*Layer
	hello Hello
}

// newPeer listens as the node with a raft-id of the cluster c, whose incarnation is 1.
func newPeer(t *testing.T, name string, certs *Certificates) *peer {
	t.Helper()
	return newPeerGreeting(t, name, certs, greetTimeout)
}

// newPeerGreeting is newPeer with another bound on the time of a greeting.
func newPeerGreeting(t *testing.T, name string, certs *Certificates, greeting time.Duration) *peer {
	t.Helper()
	return newPeerAt(t, name, testnet.FreeAddress(t), certs, greeting)
}

// newPeerAt is newPeerGreeting at an address.
func newPeerAt(t *testing.T, name, address string, certs *Certificates, greeting time.Duration) *peer {
	t.Helper()
	port, err := Listen(address, certs, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	l := port.Layer(1)
	p := &peer{Layer: l, hello: Hello{From: name + "@1", Cluster: "c", Client: "client-" + name, Reads: format, Writes: format}}
	l.greeting = greeting
	l.Self = func() Hello { return p.hello }
	l.Join = func(cluster string) error { p.hello.Cluster = cluster; return nil }
	l.Serve()
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), port.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// refusals waits until a layer has refused so many connections.
func (p *peer) refusals(t *testing.T, n uint64) {
	t.Helper()
	testnet.Until(t, "a connection that is refused", func() bool { return p.refused.Load() >= n })
	if got := p.refused.Load(); got != n {
		t.Errorf("%d connections are refused, not %d", got, n)
	}
}

// A connection for clients that is closed by the node that called is reset: the system sends nothing that is left of it. The
// clients have been told by then that they get no replies.
func TestClosedUplinkIsReset(t *testing.T) {
	p, q := newPeer(t, "p", nil), newPeer(t, "q", nil)
	served := make(chan net.Conn, 1)
	p.Clients = func(c net.Conn, _ string) { served <- c }
	conn, _, err := q.Call(CallClients, p.address, "p@1", deadline)
	if err != nil {
		t.Fatal(err)
	}
	there := <-served
	defer func() { _ = there.Close() }()
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the other end reads %v", err)
	}
}

// Two nodes work together only if each accepts what the other says of itself.
func TestHellos(t *testing.T) {
	p := newPeer(t, "p", nil)
	for name, c := range map[string]struct {
		call   Call
		caller Hello
		means  string
		want   string
	}{
		"a peer":                 {CallRaft, Hello{From: "q@1", Cluster: "c", Reads: format, Writes: format}, "p@1", ""},
		"an older peer":          {CallRaft, Hello{From: "q@1", Cluster: "c", Reads: 9, Writes: 1}, "p@1", ""},
		"a newer one":            {CallRaft, Hello{From: "q@1", Cluster: "c", Reads: format + 1, Writes: format + 1}, "p@1", "newer version"},
		"one that reads less":    {CallRaft, Hello{From: "q@1", Cluster: "c"}, "p@1", "newer version"},
		"another cluster":        {CallRaft, Hello{From: "q@1", Cluster: "d", Reads: format, Writes: format}, "p@1", "another cluster"},
		"no cluster":             {CallRaft, Hello{From: "q@1", Reads: format, Writes: format}, "p@1", "does not belong to this cluster"},
		"no cluster, but asks":   {CallAsk, Hello{From: "q@1", Reads: format, Writes: format}, "p", ""},
		"means another":          {CallRaft, Hello{From: "q@1", Cluster: "c", Reads: format, Writes: format}, "q@1", "is p, and not q"},
		"means a lost directory": {CallRaft, Hello{From: "q@1", Cluster: "c", Reads: format, Writes: format}, "p@0", "another directory"},
		"questions":              {CallGroups, Hello{From: "q@1", Cluster: "c", Reads: format, Writes: format}, "p@1", "go to group 0, which only a cluster of several groups has"},
		"clients":                {CallClients, Hello{From: "q@1", Cluster: "c", Reads: format, Writes: format}, "p@1", "does not take commands"},
		"an unknown call":        {9, Hello{From: "q@1", Cluster: "c", Reads: format, Writes: format}, "p@1", "not a node of this version"},
	} {
		l := newPort(nil, "", p.log).Layer(1)
		l.Self = func() Hello { return c.caller }
		conn, _, err := l.Call(c.call, p.address, c.means, deadline)
		switch {
		case c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", name, err)
		case err == nil && c.call == CallRaft:
			got, err := p.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_ = got.Close()
			_ = conn.Close()
		}
	}
}

// A node without a cluster becomes a member of the cluster that knows its directory, and of no other.
func TestClusterIsLearnt(t *testing.T) {
	p := newPeer(t, "p", nil)
	p.hello.Cluster = ""
	q := newPeer(t, "q", nil)
	if _, _, err := q.Call(CallRaft, p.address, "p", deadline); err == nil || p.hello.Cluster != "" {
		t.Errorf("by one that does not know it: %v, %q", err, p.hello.Cluster)
	}
	conn, _, err := q.Call(CallRaft, p.address, "p@1", deadline)
	if err != nil || p.hello.Cluster != "c" {
		t.Fatalf("%v, %q", err, p.hello.Cluster)
	}
	_ = conn.Close()
	if h := q.Said("p@1"); h.Client != "client-p" {
		t.Errorf("it knows %+v", h)
	}
}

// A node knows where clients reach a member that calls it, such as the leader, before it has asked that one itself. It believes no stranger.
func TestCallersAreKnown(t *testing.T) {
	p, q := newPeer(t, "p", nil), newPeer(t, "q", nil)
	p.hello.Cluster, q.hello.Cluster = "c", "c"
	if _, _, err := q.Call(CallAsk, p.address, "p@1", deadline); err != nil || p.Said("q@1").Client != "" {
		t.Errorf("from one that may be no member: %v, %+v", err, p.Said("q@1"))
	}
	stranger := func(string) error { return errors.New("no member") }
	p.admits.Store(&stranger)
	if _, _, err := q.Call(CallRaft, p.address, "p@1", deadline); err == nil || p.Said("q@1").Client != "" {
		t.Errorf("from a stranger: %v, %+v", err, p.Said("q@1"))
	}
	p.admits.Store(nil)
	conn, _, err := q.Call(CallRaft, p.address, "p@1", deadline)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if h := p.Said("q@1"); h.Client != "client-q" {
		t.Errorf("of its caller, it knows %+v", h)
	}
}

// A connection that does not begin as a node's does is closed and counted.
func TestForeignConnections(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var certs *Certificates
		if secure {
			certs = newAuthority(t).issue("p", time.Hour)
		}
		p := newPeer(t, "p", certs)
		all := []string{"GET / HTTP/1.1\r\n\r\n", "LDBR\x00\x01\x00\x00", wire + "\x01\x00\x00", wire + "\x01\xff\xff", wire + "\x01\x02\x00{}", strings.Repeat("\xff", 100), ""}
		for i, text := range all {
			c, err := net.Dial("tcp", p.address)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, text)
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c) // until it is closed
			_ = c.Close()
			p.refusals(t, uint64(i+1))
		}
	}
}

// Close ends the connections that were accepted.
func TestCloseEndsConnections(t *testing.T) {
	p, q := newPeer(t, "p", nil), newPeer(t, "q", nil)
	w := newTransport(p)
	conn, _, err := q.Call(CallRaft, p.address, "p@1", deadline)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection that was accepted stays open")
	}
	_ = conn.Close()
}

// Connections that say nothing have places of their own, and do not hold up nodes that have said who they
// are.
func TestManyThatSayNothing(t *testing.T) {
	p := newPeer(t, "p", nil)
	var silent []net.Conn
	for range maxGreeting + 1 {
		c, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	p.refusals(t, 1)
	_ = silent[1].Close()
	p.refusals(t, 2)
	q := newPeer(t, "q", nil)
	if _, _, err := q.Call(CallAsk, p.address, "p@1", deadline); err != nil {
		t.Error(err)
	}
	for _, c := range silent {
		_ = c.Close()
	}
	p.refusals(t, maxGreeting+1)
}

// wire is how a hello begins.
const wire = helloMagic + string(rune(helloWire))

// A node gives up a handshake or a hello that does not end, and no other connection waits for it.
func TestSlowGreetings(t *testing.T) {
	ca := newAuthority(t)
	for name, c := range map[string]struct {
		certs *Certificates
		begin string
	}{
		"a hello":         {nil, wire + "\x02\x40\x00"},
		"a TLS handshake": {ca.issue("p", time.Hour), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
	} {
		const greeting = 20 * time.Millisecond
		p, began := newPeerGreeting(t, "p", c.certs, greeting), time.Now()
		slow, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(slow, c.begin)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = io.Copy(io.Discard, slow) // until it is closed
		}()
		for open := true; open; {
			select {
			case <-over:
				open = false
			case <-time.After(time.Millisecond):
				_, _ = slow.Write([]byte{0}) // it goes on, byte by byte
			}
		}
		_ = slow.Close()
		if took := time.Since(began); took < greeting {
			t.Errorf("%s is refused after %v, before its time is over", name, took)
		}
		p.refusals(t, 1)
		var certs *Certificates
		if c.certs != nil {
			certs = ca.issue("q", time.Hour)
		}
		q := newPeer(t, "q", certs)
		testnet.Until(t, "a node is greeted after "+name, func() bool {
			_, _, err := q.Call(CallAsk, p.address, "p@1", deadline)
			return err == nil
		})
	}
}

// Both ends have a certificate of the nodes' authority with the node's name, which is valid now.
func TestCertificates(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	p := newPeer(t, "p", ours.issue("p", time.Hour))
	q := newPeer(t, "q", ours.issue("q", time.Hour))
	for _, c := range []struct {
		name, as, means string
		certs           *Certificates
		ok              bool
	}{
		{"its own", "q", "p@1", q.certs, true},
		{"one for another node", "q", "p@1", ours.issue("r", time.Hour), false},
		{"an expired one", "q", "p@1", ours.issue("q", -time.Hour), false},
		{"a foreign one", "q", "p@1", foreign.issue("q", time.Hour), false},
		{"none", "q", "p@1", nil, false},
		{"means another", "q", "r@1", q.certs, false},
	} {
		before := p.refused.Load()
		l := newPort(nil, "", p.log).Layer(1)
		l.certs = c.certs
		l.Self = func() Hello { return Hello{From: c.as + "@1", Cluster: "c", Reads: format, Writes: format} }
		_, _, err := l.Call(CallAsk, p.address, c.means, deadline)
		if c.ok != (err == nil) {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !c.ok {
			testnet.Until(t, "a refusal", func() bool { return p.refused.Load() > before })
		}
	}
	// A peer whose authority is unknown is not believed either.
	stranger := newPeer(t, "p", foreign.issue("p", time.Hour))
	if _, _, err := q.Call(CallAsk, stranger.address, "p@1", deadline); err == nil {
		t.Error("a foreign certificate at the other end is believed")
	}
	// Without a certificate, TLS 1.3 ends at the first read.
	conf := q.certs.toPeer("p")
	conf.Certificates = nil
	c, err := tls.Dial("tcp", p.address, conf)
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		_ = c.Close()
	}
	if err == nil {
		t.Error("no certificate is one")
	}
}

// A certificate is renewed while connections stay open, and one that cannot be read changes nothing.
func TestCertificatesAreRenewed(t *testing.T) {
	a := newAuthority(t)
	p := newPeer(t, "p", a.issue("p", time.Hour))
	q := newPeer(t, "q", a.issue("q", -time.Hour))
	if _, _, err := q.Call(CallAsk, p.address, "p@1", deadline); err == nil {
		t.Fatal("an expired certificate is believed")
	}
	f := a.files("q", time.Hour)
	if err := q.certs.Reload(); err != nil {
		t.Fatal(err)
	}
	conn, _, err := q.Call(CallRaft, p.address, "p@1", deadline)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := q.certs.Reload(); err == nil {
		t.Error("a key that is none is loaded")
	}
	got, err := p.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := got.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if _, _, err := q.Call(CallAsk, p.address, "p@1", deadline); err != nil {
		t.Error(err)
	}
	_ = conn.Close()
	_ = got.Close()
	if err := q.certs.Check("r"); err == nil {
		t.Error("the certificate is one of another node, too")
	}
	if err := q.certs.Check("q"); err != nil {
		t.Error(err)
	}
}

// A peer that announces 4 GB gets no memory for them.
func TestLongMessages(t *testing.T) {
	p := newPeer(t, "p", nil)
	w := newTransport(p)
	defer func() { _ = w.Close() }()
	q := newPeer(t, "q", nil)
	for i, message := range []string{
		"\x77" + strings.Repeat("\xff", 100),             // no message
		"\x00\x81\xa7Entries\xdd\xff\xff\xff\xff",        // an array of 4 G entries
		"\x00\x81\xa6Leader\xc6\xff\xff\xff\xff",         // 4 GB of bytes
		"\x00\x81\xdb\xff\xff\xff\xff",                   // a name of 4 GB
		"\x02\x81\xadConfiguration\xc6\xff\xff\xff\xff",  // of a snapshot
		"\x00" + strings.Repeat("\x91", 10_000) + "\x01", // deep
	} {
		conn, _, err := q.Call(CallRaft, p.address, "p@1", deadline)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = io.WriteString(conn, message)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		if i == 0 {
			p.refusals(t, 1) // some of the others only end early
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("message %d: %d bytes are allocated", i, used)
		}
	}
}

const deadline = 30 * time.Second
