package envoyrls

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

// A conn is an accepted connection, with an account of the bytes that its calls hold. A call is partial until its message is whole. Whatever the
// connection has sent since its oldest partial call has begun may belong to partial calls, and is counted for them.
type conn struct {
	net.Conn
	guest Guest
	once  sync.Once
	read  atomic.Int64 // bytes, since the connection was accepted
	seen  int64        // read when Read last told the guest; only Read uses it

	mu      sync.Mutex // guards what follows
	partial list.List  // of *call, the oldest first
	whole   int64      // bytes of whole messages that are being answered
	told    int64      // what guest.Holds has been told
}

// A call is one call of a connection.
type call struct {
	on    *conn
	at    *list.Element // in conn.partial; nil: it is whole
	since int64         // when it began, ns of Unix time
	mark  int64         // conn.read when it began
	size  int64         // of the message
}

// tellStep is about how much the bytes that are held change before the guest is told.
const tellStep = 16 << 10

// Read implements net.Conn.
func (c *conn) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	if read := c.read.Add(int64(n)); read-c.seen >= tellStep {
		c.seen = read
		c.mu.Lock()
		c.tell()
		c.mu.Unlock()
	}
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.guest.Leave(errClosed) })
	return err
}

// markKey is the key under which the context of a call has the call's mark.
type markKey struct{}

// marked notes what the connection has sent when the header of a call is read. The call's goroutine may begin much later.
func marked(ctx context.Context, _ *tap.Info) (context.Context, error) {
	return context.WithValue(ctx, markKey{}, connOf(ctx).read.Load()), nil
}

// begin notes that a call has begun. Calls begin in any order, and are kept in that of their marks.
func (c *conn) begin(ctx context.Context) *call {
	k := &call{on: c, since: c.guest.Begins()}
	k.mark, _ = ctx.Value(markKey{}).(int64)
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.partial.Back()
	for before != nil && before.Value.(*call).mark > k.mark {
		before = before.Prev()
	}
	if before != nil {
		k.at = c.partial.InsertAfter(k, before)
	} else {
		k.at = c.partial.PushFront(k)
		c.guest.Waits(k.since)
	}
	c.tell()
	return k
}

// got notes that the message of the call is whole.
func (k *call) got(size int) {
	c := k.on
	c.mu.Lock()
	defer c.mu.Unlock()
	k.size = int64(size)
	c.whole += k.size
	c.complete(k)
	c.tell()
}

// end notes that the call is over.
func (k *call) end() {
	c := k.on
	c.mu.Lock()
	defer c.mu.Unlock()
	c.whole -= k.size
	c.complete(k)
	c.tell()
}

// complete removes a call from the partial ones. The caller holds mu.
func (c *conn) complete(k *call) {
	if k.at == nil {
		return
	}
	first := c.partial.Front() == k.at
	c.partial.Remove(k.at)
	k.at = nil
	if !first {
		return
	}
	since := int64(0)
	if oldest := c.partial.Front(); oldest != nil {
		since = oldest.Value.(*call).since
	}
	c.guest.Waits(since)
}

// tell tells the guest how many bytes the calls hold, if that has changed much. The caller holds mu.
func (c *conn) tell() {
	held := c.whole
	if oldest := c.partial.Front(); oldest != nil {
		held += c.read.Load() - oldest.Value.(*call).mark
	}
	if change := held - c.told; change >= tellStep/2 || change <= -tellStep/2 || held == 0 && c.told != 0 {
		c.told = held
		c.guest.Holds(held)
	}
}

// creds makes the handshake of a connection, if the port speaks TLS, and has the calls find the connection.
type creds struct {
	inner credentials.TransportCredentials // nil: no TLS
}

// info is what a call's peer has.
type info struct {
	credentials.AuthInfo // of TLS; nil: none
	conn                 *conn
}

// AuthType implements credentials.AuthInfo.
func (i info) AuthType() string {
	if i.AuthInfo == nil {
		return "plain"
	}
	return i.AuthInfo.AuthType()
}

// connOf returns the connection of a call.
func connOf(ctx context.Context) *conn {
	if p, ok := peer.FromContext(ctx); ok {
		if i, ok := p.AuthInfo.(info); ok {
			return i.conn
		}
	}
	return nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (c creds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	i := info{conn: raw.(*conn)}
	if c.inner == nil {
		return raw, i, nil
	}
	secure, of, err := c.inner.ServerHandshake(raw)
	if t, ok := of.(credentials.TLSInfo); ok && err == nil && len(t.State.VerifiedChains) > 0 {
		i.conn.guest.Certified(t.State.VerifiedChains[0][0].Subject.CommonName)
	}
	i.AuthInfo = of
	return secure, i, err
}

var errServerOnly = errors.New("envoyrls: these credentials are for a server")

// ClientHandshake implements credentials.TransportCredentials.
func (c creds) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errServerOnly
}

// Info implements credentials.TransportCredentials.
func (c creds) Info() credentials.ProtocolInfo {
	if c.inner == nil {
		return credentials.ProtocolInfo{SecurityProtocol: "plain"}
	}
	return c.inner.Info()
}

// Clone implements credentials.TransportCredentials.
func (c creds) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (c creds) OverrideServerName(string) error { return errServerOnly }

// credsOf returns the credentials of a port; conf is nil for one without TLS.
func credsOf(conf *tls.Config) credentials.TransportCredentials {
	if conf == nil {
		return creds{}
	}
	return creds{credentials.NewTLS(withHTTP2(conf))}
}

// withHTTP2 returns a configuration as conf whose handshakes agree on HTTP/2, which gRPC demands. conf chooses another one for each handshake, so
// that certificates can be replaced; while it is the same, so is the result, and its session tickets last.
func withHTTP2(conf *tls.Config) *tls.Config {
	type pair struct{ from, to *tls.Config }
	var last atomic.Pointer[pair]
	out := conf.Clone()
	out.NextProtos = []string{"h2"}
	if conf.GetConfigForClient == nil {
		return out
	}
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		from, err := conf.GetConfigForClient(hello)
		if err != nil || from == nil {
			return from, err
		}
		if p := last.Load(); p != nil && p.from == from {
			return p.to, nil
		}
		to := from.Clone()
		to.NextProtos = []string{"h2"}
		last.Store(&pair{from, to})
		return to, nil
	}
	return out
}
