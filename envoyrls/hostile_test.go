package envoyrls

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// describes has the port describe its services.
func describes(_ *peer, o *Options) { o.Reflection = true }

// reflects begins a reflection call.
func (p *peer) reflects(stream uint32) {
	p.head(stream, false, ":path", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
}

// asksList is the message that asks for the services.
func asksList() []byte { return prefixed(appendString(nil, askList, "")) }

// TestManyQuestions asks for descriptions in one frame, and without reading them.
func TestManyQuestions(t *testing.T) {
	p := greeted(t, describes)
	p.reflects(1)
	_ = p.WriteData(1, true, bytes.Repeat(asksList(), maxAsks))
	if got := p.send(); strings.Count(got, "DATA 1") != maxAsks || !strings.HasSuffix(got, "; HEADERS 1 grpc-status=0 END") {
		t.Errorf("%d questions: %s", maxAsks, got)
	}
	p.reflects(3)
	_ = p.WriteData(3, false, bytes.Repeat(asksList(), maxAsks+1))
	if got := p.send(); !strings.HasSuffix(got, "HEADERS 3 grpc-status=8 grpc-message=it asks for more than it reads END; RESET 3 NO_ERROR") {
		t.Errorf("one more: %s", got)
	}
	p.idle()

	p = greeted(t, describes, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	p.reflects(1)
	ask := prefixed(appendString(nil, askSymbol, serviceName))
	for range 1000 {
		_ = p.WriteData(1, false, ask)
	}
	p.send()
	if p.guest.most > 2*maxAhead {
		t.Errorf("it holds %d bytes that the client does not read", p.guest.most)
	}
	// What comes after its end changes nothing.
	_ = p.WriteData(1, true, ask)
	_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	_ = p.WriteWindowUpdate(0, 1<<20)
	if got := p.send(); !strings.HasSuffix(got, "HEADERS 1 grpc-status=8 grpc-message=it asks for more than it reads END") {
		t.Errorf("in the end: %s", got)
	}
	p.idle()
}

// TestSmallMessages sends large messages to methods that anybody may call.
func TestSmallMessages(t *testing.T) {
	for _, path := range []string{"/" + healthName + "/Check", "/" + healthName + "/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
		p := greeted(t, describes)
		p.head(1, false, ":path", path)
		_ = p.WriteData(1, false, []byte{0, 0, 0, maxName >> 8, 1})
		if got, want := p.send(), fmt.Sprintf("HEADERS 1 :status=200 grpc-status=8 grpc-message=the message has more than %d bytes END; RESET 1 NO_ERROR", maxName); got != want {
			t.Errorf("%s\n got %s\nwant %s", path, got, want)
		}
		p.idle()
	}
}

// TestHeadsThatNeverEnd checks that the client owes the rest of a head from its first frame on.
func TestHeadsThatNeverEnd(t *testing.T) {
	p := greeted(t, nil)
	_ = p.WriteRawFrame(http2.FrameHeaders, 0, 1, nil)
	p.send()
	since := p.guest.now
	for range 3 {
		_ = p.WriteContinuation(1, false, nil)
		p.send()
		p.x.Data([]byte{0})
		_ = p.x.Resume()
		if p.guest.waits != since {
			t.Fatalf("it waits since %d, want %d", p.guest.waits, since)
		}
		p.x.Data([]byte{0, 0, 9, 0, 0, 0, 0, 1}) // the rest of an empty part
	}
}

// TestManySettings sends one frame that changes the windows of all streams again and again.
func TestManySettings(t *testing.T) {
	for n, want := range map[int]string{maxSettings: "SETTINGS ACK", maxSettings + 1: "GOAWAY 0 ENHANCE_YOUR_CALM too many settings"} {
		p := greeted(t, nil)
		var all []http2.Setting
		for i := range n {
			all = append(all, http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)})
		}
		_ = p.WriteSettings(all...)
		if got := p.send(); got != want {
			t.Errorf("%d settings: %s, want %s", n, got, want)
		}
	}
}

// TestManyStuck has many answers wait for windows: a frame that helps none costs nothing, and one that helps all sends all, in order.
func TestManyStuck(t *testing.T) {
	p := greeted(t, nil, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range uint32(maxStreams) {
		p.head(2*i+1, false)
		_ = p.WriteData(2*i+1, true, p.usual())
	}
	p.send()
	if n := len(p.x.stuck); n != maxStreams {
		t.Fatalf("%d calls are stuck", n)
	}
	if n := testing.AllocsPerRun(10, p.x.unstick); n != 0 {
		t.Errorf("%v allocations for a frame that helps none", n)
	}
	_ = p.WriteRSTStream(5, http2.ErrCodeCancel)
	_ = p.WriteWindowUpdate(3, 100)
	if got := p.send(); got != "DATA 3 27; HEADERS 3 grpc-status=0 END" {
		t.Error(got)
	}
	_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 20})
	p.send()
	_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	if got := p.send(); got != "SETTINGS ACK" {
		t.Error("with negative windows: ", got)
	}
	_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 27})
	var want []string
	want = append(want, "SETTINGS ACK")
	for i := range uint32(maxStreams) {
		if id := 2*i + 1; id != 3 && id != 5 {
			want = append(want, fmt.Sprintf("DATA %d 7; HEADERS %d grpc-status=0 END", id, id))
		}
	}
	if got := p.send(); got != strings.Join(want, "; ") {
		t.Errorf("%.200s", got)
	}
	p.idle()
}

// TestContentLength sends more and less than the head says.
func TestContentLength(t *testing.T) {
	size := func(p *peer, change int) string { return strconv.Itoa(len(p.usual()) + change) }
	for name, c := range map[string]struct {
		do   func(p *peer)
		want string
	}{
		"right": {func(p *peer) { p.head(1, false, "content-length", size(p, 0)); _ = p.WriteData(1, true, p.usual()) }, answered},
		"in parts": {func(p *peer) {
			p.head(1, false, "content-length", size(p, 0))
			_ = p.WriteData(1, false, p.usual()[:3])
			_ = p.WriteDataPadded(1, false, p.usual()[3:], make([]byte, 3))
			_ = p.WriteData(1, true, nil)
		}, answered},
		"too little": {func(p *peer) { p.head(1, false, "content-length", size(p, 1)); _ = p.WriteData(1, true, p.usual()) }, "RESET 1 PROTOCOL_ERROR"},
		"too much":   {func(p *peer) { p.head(1, false, "content-length", size(p, -1)); _ = p.WriteData(1, false, p.usual()) }, "RESET 1 PROTOCOL_ERROR"},
		"nothing":    {func(p *peer) { p.head(1, true, "content-length", "5") }, "RESET 1 PROTOCOL_ERROR"},
		"no number":  {func(p *peer) { p.head(1, true, "content-length", "-5") }, "RESET 1 PROTOCOL_ERROR"},
		"trailers": {func(p *peer) {
			p.head(1, false, "content-length", size(p, 1))
			_ = p.WriteData(1, false, p.usual())
			p.fields(1, true, [][2]string{{"x", "y"}})
		}, "RESET 1 PROTOCOL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			p := greeted(t, nil)
			c.do(p)
			if got := p.send(); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if c.want != answered && len(p.ran) > 0 {
				t.Errorf("ran %q", p.ran)
			}
			p.idle()
		})
	}
}

// TestCallsAreHeld counts the memory of calls that have sent only their heads.
func TestCallsAreHeld(t *testing.T) {
	p := greeted(t, nil)
	for i := range uint32(10) {
		p.head(2*i+1, false)
	}
	p.send()
	if p.guest.holds != 10*callSize {
		t.Errorf("10 calls hold %d bytes", p.guest.holds)
	}
	for i := range uint32(10) {
		_ = p.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	p.send()
	p.idle()
}

// TestOpenReflectionAtStop stops while a tool may still ask.
func TestOpenReflectionAtStop(t *testing.T) {
	p := greeted(t, describes)
	p.reflects(1)
	p.send()
	p.s.stopping.Store(true)
	p.x.Resume()
	if got := p.said(); !strings.HasPrefix(got, "GOAWAY 2147483647 NO_ERROR; PING limitdb!; HEADERS 1 :status=200 grpc-status=14") {
		t.Error(got)
	}
	p.idle()
}

// TestSmallWindows takes an answer byte by byte: the rest is not copied each time, and pings between the bytes are no offence, as clients measure
// their connections so.
func TestSmallWindows(t *testing.T) {
	p := greeted(t, nil, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	p.head(1, false)
	_ = p.WriteData(1, true, p.usual())
	p.send()
	for i := range 26 {
		rest := p.x.calls[1].unsent
		_ = p.WriteWindowUpdate(1, 1)
		_ = p.WritePing(false, [8]byte([]byte("12345678")))
		if got := p.send(); got != "DATA 1 1; PING 12345678 ACK" {
			t.Fatalf("byte %d: %s", i, got)
		}
		if &p.x.calls[1].unsent[0] != &rest[1] {
			t.Fatalf("byte %d: the rest is copied", i)
		}
	}
	_ = p.WriteWindowUpdate(1, 1)
	if got := p.send(); got != "DATA 1 1; HEADERS 1 grpc-status=0 END" {
		t.Error(got)
	}
	p.idle()
}

// TestResetBeforeLanding resets a call whose result is there but has not been looked at: the call that begins meanwhile does not get it.
func TestResetBeforeLanding(t *testing.T) {
	p := greeted(t, func(_ *peer, o *Options) {
		o.Begin = func(context.Context, [][]byte) ([]byte, func(context.Context) ([]byte, error)) {
			return nil, func(context.Context) ([]byte, error) { return []byte(granted), nil }
		}
	})
	p.head(1, false)
	_ = p.WriteData(1, true, p.usual())
	p.send()
	p.s.waits.Wait()
	_ = p.WriteRSTStream(1, http2.ErrCodeCancel)
	p.head(3, false)
	if got := p.send(); got != "" || p.x.lost != 1 {
		t.Errorf("%s, %d calls are lost", got, p.x.lost)
	}
	p.x.Resume()
	if got := p.said(); got != "" || p.x.lost != 0 {
		t.Errorf("after the result: %s, %d calls are lost", got, p.x.lost)
	}
	_ = p.WriteData(3, true, p.usual())
	p.send()
	p.s.waits.Wait()
	p.x.Resume()
	if got := p.said(); got != strings.ReplaceAll(answered, " 1 ", " 3 ") {
		t.Error(got)
	}
	p.idle()
}

// TestHalfMessages begins many messages and ends none: what is held of them all is bounded, and counted as it is.
func TestHalfMessages(t *testing.T) {
	p := greeted(t, nil)
	part, streams := make([]byte, maxFrame), uint32(maxStreams)
	begin := append([]byte{0, 0, byte(maxMessage >> 17), 0, 0}, part[5:]...) // half of the largest
	before := heap()
	refused := 0
	for round := range 8 {
		for i := range streams {
			id := 2*i + 1
			if p.x.calls[id] == nil && round > 0 {
				continue
			}
			if round == 0 {
				p.head(id, false)
				_ = p.WriteData(id, false, begin)
			} else {
				_ = p.WriteData(id, false, part)
			}
			refused += strings.Count(p.send(), "grpc-message=messages that are not whole take ")
		}
	}
	grown := heap() - before
	_, most := p.s.Longest()
	if p.x.half > most || p.guest.most > most+2*maxFrame+maxStreams*callSize || refused < maxStreams-int(most)/maxFrame {
		t.Errorf("%d bytes of messages are held, %d in all, and %d messages were refused", p.x.half, p.guest.most, refused)
	}
	if p.guest.holds < grown*3/4 {
		t.Errorf("%d bytes are told, and the heap has grown by %d", p.guest.holds, grown)
	}
	for i := range streams {
		_ = p.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	p.send()
	p.idle()

	// One message alone may be as long as any.
	p.head(2*streams+1, false)
	_ = p.WriteData(2*streams+1, false, begin[:5])
	for range maxMessage/2/maxFrame - 1 {
		_ = p.WriteData(2*streams+1, false, part)
		if got := p.send(); strings.Contains(got, "HEADERS") {
			t.Fatal(got)
		}
	}
	// Beside it, no other has room.
	p.head(2*streams+3, false)
	_ = p.WriteData(2*streams+3, false, begin)
	if got := p.send(); !strings.Contains(got, fmt.Sprintf("HEADERS %d :status=200 grpc-status=8 grpc-message=messages that are not whole take ", 2*streams+3)) {
		t.Error(got)
	}
	_ = p.WriteRSTStream(2*streams+1, http2.ErrCodeCancel)
	p.send()
	p.idle()
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestBadValues sends fields whose values no field may have, in heads and in trailers: each is a malformed request, which ends its stream
// and no other.
func TestBadValues(t *testing.T) {
	const reset = "RESET 1 PROTOCOL_ERROR"
	for name, want := range map[string]string{
		"x": reset, "grpc-timeout": reset, "content-type": reset, "authorization": reset, "te": reset,
		":authority": reset, ":path": reset, ":method": reset, ":scheme": reset,
	} {
		for _, value := range []string{"a\x00b", "a\rb", "a\nb", "\x00", "\r\n", "a\r\nb: c", " a", "a ", "\ta", "a\t"} {
			p := greeted(t, nil)
			p.head(1, false, name, value)
			_ = p.WriteData(1, true, p.usual())
			if got := p.send(); got != want {
				t.Errorf("%s with %q: %s", name, value, got)
			}
			p.head(3, false)
			_ = p.WriteData(3, true, p.usual())
			if got := p.send(); got != strings.ReplaceAll(answered, " 1 ", " 3 ") || len(p.ran) != 1 {
				t.Errorf("after %s with %q: %s, ran %q", name, value, got, p.ran)
			}
			p.idle()
		}
	}
	p := greeted(t, nil)
	p.head(1, false)
	_ = p.WriteData(1, false, p.usual())
	p.fields(1, true, [][2]string{{"x", "a\nb"}})
	if got := p.send(); got != reset || len(p.ran) > 0 {
		t.Errorf("trailers: %s, ran %q", got, p.ran)
	}
	p.idle()
	p = greeted(t, nil)
	p.head(1, false, "x", "a b\tc\x7f\x01\xff", "y", "")
	_ = p.WriteData(1, true, p.usual())
	if got := p.send(); got != answered {
		t.Errorf("other bytes: %s", got)
	}
	p.idle()
}

// raw is a client that speaks HTTP/2 by hand.
type raw struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
	buf bytes.Buffer
	enc *hpack.Encoder
}

func (p *port) raw() *raw {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	r := &raw{t: p.t, conn: conn, Framer: http2.NewFramer(conn, conn)}
	r.enc = hpack.NewEncoder(&r.buf)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		p.t.Fatal(err)
	}
	r.must(r.WriteSettings())
	go func() { // what the server says is not looked at
		b := make([]byte, 4096)
		for {
			if _, err := conn.Read(b); err != nil {
				return
			}
		}
	}()
	return r
}

func (r *raw) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// begin begins a call.
func (r *raw) begin(stream uint32) {
	r.t.Helper()
	r.buf.Reset()
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		r.must(r.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	r.must(r.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: r.buf.Bytes(), EndHeaders: true}))
}

// part sends the beginning of a message of 4 MB.
func (r *raw) part(stream uint32, bytes int) {
	r.t.Helper()
	b := make([]byte, 5+bytes)
	b[2] = 0x3f // 4 MB, nearly
	for len(b) > 0 {
		n := min(len(b), 16<<10)
		r.must(r.WriteData(stream, false, b[:n]))
		b = b[n:]
	}
}

// TestResetStreams begins calls, sends parts of their messages, and resets them.
func TestResetStreams(t *testing.T) {
	p := open(t, nil)
	r := p.raw()
	const streams = 1000
	for i := range uint32(streams) {
		r.begin(2*i + 1)
		if i < 50 {
			r.part(2*i+1, 16<<10)
		}
	}
	p.guest.until(t, "partial", func() bool { return p.guest.waits != 0 && p.guest.holds >= 50*16<<10 })
	for i := range uint32(streams) {
		r.must(r.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
	}
	p.guest.until(t, "reset", func() bool { return p.guest.waits == 0 && p.guest.holds == 0 })
	if p.commands() != 0 {
		t.Error("a command ran")
	}
	if _, err := p.plain().ShouldRateLimit(patient(t), ask("edge", 0, desc())); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestSlowClient sends most of a message and then leaves.
func TestSlowClient(t *testing.T) {
	p := open(t, nil)
	r := p.raw()
	r.begin(1)
	r.part(1, 60<<10)
	p.guest.until(t, "partial", func() bool { return p.guest.waits > 0 && p.guest.holds >= 60<<10 })
	_ = r.conn.Close()
	p.guest.until(t, "gone", func() bool { return p.guest.left && p.guest.waits == 0 && p.guest.holds == 0 })
}

// TestGarbage sends what is no HTTP/2.
func TestGarbage(t *testing.T) {
	p := open(t, nil)
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "*1\r\n$4\r\nPING\r\n", strings.Repeat("\x00", 100), http2.ClientPreface + strings.Repeat("\xff", 1000)} {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(text)) // it may be closed already
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		for b := make([]byte, 1024); err == nil; {
			_, err = conn.Read(b)
		}
		if e, ok := err.(net.Error); ok && e.Timeout() {
			t.Errorf("%q: the connection stays", text)
		}
		_ = conn.Close()
	}
}
