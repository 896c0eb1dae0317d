package envoyrls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"limitdb/transport"
)

// fakeConn is a connection that keeps what is written.
type fakeConn struct {
	transport.Conn
	out     bytes.Buffer
	closed  error // why
	woken   chan struct{}
	yielded bool
	turn    time.Duration
}

func (c *fakeConn) Write(p []byte)               { c.out.Write(p) }
func (c *fakeConn) Turn() time.Duration          { return c.turn }
func (c *fakeConn) Yield()                       { c.yielded = true }
func (c *fakeConn) CloseAfterFlush(reason error) { c.Close(reason) }
func (c *fakeConn) RemoteAddr() net.Addr         { return &net.TCPAddr{} }

func (c *fakeConn) Wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

func (c *fakeConn) Close(reason error) bool {
	if c.closed == nil {
		c.closed = reason
	}
	return true
}

// peer is a client of a session without sockets.
type peer struct {
	*http2.Framer // writes to in
	t             testing.TB
	s             *Server
	x             *session
	conn          *fakeConn
	guest         *fakeGuest
	in            bytes.Buffer
	block         bytes.Buffer
	enc           *hpack.Encoder
	dec           *http2.Framer // of the session's frames
	now           int64
	ran           []string
}

// newPeer returns a peer that has not sent anything. change may be nil.
func newPeer(t testing.TB, change func(*peer, *Options)) *peer {
	t.Helper()
	p := &peer{t: t, conn: &fakeConn{woken: make(chan struct{}, 1), turn: time.Second}, guest: &fakeGuest{now: 1e18}, now: 1e18}
	o := Options{
		Begin: func(_ context.Context, args [][]byte) ([]byte, func(context.Context) ([]byte, error)) {
			p.ran = append(p.ran, string(bytes.Join(args, []byte(" "))))
			return []byte(granted), nil
		},
		Enter:   func(transport.Conn) (Guest, error) { return p.guest, nil },
		Longest: func() (int64, int64) { return 64 << 10, 1 << 20 },
		Ready:   func() error { return nil },
		Now:     func() int64 { return p.now },
	}
	if change != nil {
		change(p, &o)
	}
	p.s = New(o, transport.Options{})
	p.x = p.s.Accept(p.conn).(*session)
	p.Framer = http2.NewFramer(&p.in, nil)
	p.AllowIllegalWrites = true
	p.enc = hpack.NewEncoder(&p.block)
	p.dec = http2.NewFramer(nil, &p.conn.out)
	p.dec.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return p
}

// greeted returns a peer whose preface is answered.
func greeted(t testing.TB, change func(*peer, *Options), settings ...http2.Setting) *peer {
	t.Helper()
	p := newPeer(t, change)
	p.in.WriteString(http2.ClientPreface)
	_ = p.WriteSettings(settings...) // a buffer takes everything
	if got := p.send(); got != "SETTINGS; WINDOW 0; SETTINGS ACK" {
		t.Fatalf("the session begins with %s", got)
	}
	return p
}

// head writes the head of a call. The fields are names and values that replace the usual ones; an empty value leaves the field out.
func (p *peer) head(stream uint32, end bool, fields ...string) {
	p.fields(stream, end, [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/" + serviceName + "/ShouldRateLimit"},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}, fields...)
}

// fields writes fields as head does, of which others replace some.
func (p *peer) fields(stream uint32, end bool, all [][2]string, fields ...string) {
next:
	for i := 0; i < len(fields); i += 2 {
		for j := range all {
			if all[j][0] == fields[i] {
				all[j][1] = fields[i+1]
				continue next
			}
		}
		all = append(all, [2]string{fields[i], fields[i+1]})
	}
	p.block.Reset()
	for _, f := range all {
		if f[1] != "" {
			_ = p.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
	}
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.block.Bytes(), EndHeaders: true, EndStream: end})
}

// prefixed returns a message of gRPC.
func prefixed(message []byte) []byte { return framed(append(make([]byte, 5), message...)) }

// usual returns the message of a usual request.
func (p *peer) usual() []byte { return prefixed(wire(p.t, ask("edge", 0, desc("ip", "a")))) }

// send gives the session what was written, and returns what it answers.
func (p *peer) send() string {
	b := bytes.Clone(p.in.Bytes())
	p.in.Reset()
	p.x.Data(b)
	return p.said()
}

// said returns what the session has written, a frame after the other.
func (p *peer) said() string {
	var all []string
	for {
		f, err := p.dec.ReadFrame()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.t.Fatalf("after %q: %v", all, err)
		}
		id := f.Header().StreamID
		text := ""
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			text = fmt.Sprint("HEADERS ", id)
			for _, field := range f.Fields {
				if field.Name != "content-type" {
					text += " " + field.Name + "=" + field.Value
				}
			}
			if f.StreamEnded() {
				text += " END"
			}
		case *http2.DataFrame:
			text = fmt.Sprint("DATA ", id, " ", len(f.Data()))
		case *http2.RSTStreamFrame:
			text = fmt.Sprint("RESET ", id, " ", f.ErrCode)
		case *http2.GoAwayFrame:
			text = strings.TrimSpace(fmt.Sprint("GOAWAY ", f.LastStreamID, " ", f.ErrCode, " ", string(f.DebugData())))
		case *http2.SettingsFrame:
			text = "SETTINGS"
			if f.IsAck() {
				text += " ACK"
			}
		case *http2.PingFrame:
			text = fmt.Sprintf("PING %s", f.Data[:])
			if f.IsAck() {
				text += " ACK"
			}
		case *http2.WindowUpdateFrame:
			text = fmt.Sprint("WINDOW ", id)
		default:
			text = f.Header().String()
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// answered is what a session says to the usual request.
const answered = "HEADERS 1 :status=200; DATA 1 27; HEADERS 1 grpc-status=0 END"

// idle checks that the session holds nothing.
func (p *peer) idle() {
	p.t.Helper()
	if p.guest.holds != 0 || p.guest.waits != 0 || len(p.x.calls) != 0 || p.x.held != 0 || p.x.half != 0 || p.x.partial != 0 {
		p.t.Errorf("holds %d, waits since %d, %d calls, %d bytes, %d partial", p.guest.holds, p.guest.waits, len(p.x.calls), p.x.held, p.x.partial)
	}
}

// counts compares the sums that the session keeps with its calls.
func (p *peer) counts() {
	p.t.Helper()
	held, partial, stuck, watches := int64(0), 0, 0, 0
	for _, c := range p.x.calls {
		held += c.held
		for _, is := range []struct {
			so bool
			n  *int
		}{{c.partial, &partial}, {len(c.unsent) > 0, &stuck}, {c.health != 0, &watches}} {
			if is.so {
				*is.n++
			}
		}
	}
	if held != p.x.held || partial != p.x.partial || stuck != len(p.x.stuck) || int32(watches) != p.x.watches.Load() {
		p.t.Errorf("it counts %d bytes, %d partial, %d stuck, %d watches; its calls: %d, %d, %d, %d",
			p.x.held, p.x.partial, len(p.x.stuck), p.x.watches.Load(), held, partial, stuck, watches)
	}
}
