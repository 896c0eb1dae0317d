package envoyrls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// TestFramesInParts sends a request as a whole, and byte by byte.
func TestFramesInParts(t *testing.T) {
	for _, size := range []int{1 << 20, 1, 2, 7} {
		p := greeted(t, nil)
		for i := range uint32(3) {
			p.head(2*i+1, false)
			_ = p.WriteData(2*i+1, true, p.usual())
		}
		all := bytes.Clone(p.in.Bytes())
		p.in.Reset()
		for len(all) > 0 {
			n := min(size, len(all))
			p.x.Data(bytes.Clone(all[:n]))
			all = all[n:]
		}
		want := answered + "; " + strings.ReplaceAll(answered, " 1 ", " 3 ") + "; " + strings.ReplaceAll(answered, " 1 ", " 5 ")
		if got := p.said(); got != want {
			t.Errorf("%d bytes at a time:\n got %s\nwant %s", size, got, want)
		}
		if len(p.ran) != 3 || p.ran[0] != "RL.ENVOY edge 1 1 ip a" {
			t.Errorf("ran %q", p.ran)
		}
		p.idle()
	}
}

// TestCalls sends one call each.
func TestCalls(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(p *peer)
		want string
	}{
		"another method": {func(p *peer) { p.head(1, false, ":path", "/x/Y"); _ = p.WriteData(1, true, p.usual()) }, `HEADERS 1 :status=200 grpc-status=12 grpc-message=there is no such method END; RESET 1 NO_ERROR`},
		"GET":            {func(p *peer) { p.head(1, true, ":method", "GET") }, `HEADERS 1 :status=405 END`},
		"JSON":           {func(p *peer) { p.head(1, true, "content-type", "application/json") }, `HEADERS 1 :status=415 END`},
		"a kind of gRPC": {func(p *peer) {
			p.head(1, false, "content-type", "application/grpc+proto")
			_ = p.WriteData(1, true, p.usual())
		}, answered},
		"trailers": {func(p *peer) {
			p.head(1, false)
			_ = p.WriteData(1, false, p.usual())
			p.fields(1, true, [][2]string{{"x", "y"}})
		}, answered},
		"trailers that ask": {func(p *peer) {
			p.head(1, false)
			_ = p.WriteData(1, false, p.usual())
			p.head(1, true)
		}, `RESET 1 PROTOCOL_ERROR`},
		"late trailers": {func(p *peer) {
			p.head(1, false, ":path", "/x/Y")
			p.fields(1, true, [][2]string{{"x", "y"}})
		}, `HEADERS 1 :status=200 grpc-status=12 grpc-message=there is no such method END; RESET 1 NO_ERROR`},
		"an end by itself": {func(p *peer) { p.head(1, false); _ = p.WriteData(1, false, p.usual()); _ = p.WriteData(1, true, nil) }, answered},
		"padding":          {func(p *peer) { p.head(1, false); _ = p.WriteDataPadded(1, true, p.usual(), make([]byte, 100)) }, answered},
		"no message":       {func(p *peer) { p.head(1, true) }, `HEADERS 1 :status=200 grpc-status=13 grpc-message=there is no whole message END`},
		"half a message":   {func(p *peer) { p.head(1, false); _ = p.WriteData(1, true, p.usual()[:10]) }, `HEADERS 1 :status=200 grpc-status=13 grpc-message=there is no whole message END`},
		"two messages":     {func(p *peer) { p.head(1, false); _ = p.WriteData(1, true, append(p.usual(), p.usual()...)) }, `HEADERS 1 :status=200 grpc-status=13 grpc-message=there is more than one message END`},
		"a packed message": {func(p *peer) { p.head(1, false); b := p.usual(); b[0] = 1; _ = p.WriteData(1, true, b) }, `HEADERS 1 :status=200 grpc-status=12 grpc-message=messages are not compressed here END`},
		"gzip":             {func(p *peer) { p.head(1, true, "grpc-encoding", "gzip") }, `HEADERS 1 :status=200 grpc-status=12 grpc-message=messages are not compressed here END`},
		"identity":         {func(p *peer) { p.head(1, false, "grpc-encoding", "identity"); _ = p.WriteData(1, true, p.usual()) }, answered},
		"a broken message": {func(p *peer) { p.head(1, false); _ = p.WriteData(1, true, prefixed([]byte("\xff"))) }, `HEADERS 1 :status=200 grpc-status=3 grpc-message=the message is no RateLimitRequest END`},
		"a large message":  {func(p *peer) { p.head(1, false); _ = p.WriteData(1, false, []byte{0, 0, 64, 0, 1}) }, `HEADERS 1 :status=200 grpc-status=8 grpc-message=the message has more than 4194304 bytes END; RESET 1 NO_ERROR`},
		"no time":          {func(p *peer) { p.head(1, false, "grpc-timeout", "0m"); _ = p.WriteData(1, true, p.usual()) }, `HEADERS 1 :status=200 grpc-status=4 grpc-message=the deadline is over END`},
		"much time":        {func(p *peer) { p.head(1, false, "grpc-timeout", "99999999H"); _ = p.WriteData(1, true, p.usual()) }, answered},
		"a strange time":   {func(p *peer) { p.head(1, true, "grpc-timeout", "1d") }, `HEADERS 1 :status=200 grpc-status=3 grpc-message=grpc-timeout cannot be read END`},
		"a denied caller":  {func(p *peer) { p.guest.denies = errors.New("100% wrong\n"); p.head(1, true) }, `HEADERS 1 :status=200 grpc-status=16 grpc-message=100%25 wrong%0A END`},
		"a strange name":   {func(p *peer) { p.head(1, true, "x y", "z") }, `RESET 1 PROTOCOL_ERROR`},
		"upper case":       {func(p *peer) { p.head(1, true, "X", "y") }, `RESET 1 PROTOCOL_ERROR`},
		"no path":          {func(p *peer) { p.head(1, true, ":path", "") }, `RESET 1 PROTOCOL_ERROR`},
		"a strange pseudo": {func(p *peer) { p.head(1, true, ":x", "y") }, `RESET 1 PROTOCOL_ERROR`},
		"connection":       {func(p *peer) { p.head(1, true, "connection", "close") }, `RESET 1 PROTOCOL_ERROR`},
		"many fields":      {func(p *peer) { p.head(1, true, "a", strings.Repeat("x", 9000), "b", strings.Repeat("x", 9000)) }, `RESET 1 PROTOCOL_ERROR`},
		"data after an end": {func(p *peer) {
			p.head(1, false)
			_ = p.WriteData(1, true, p.usual())
			_ = p.WriteData(1, true, p.usual())
		}, answered},
		"more after reset": {func(p *peer) {
			p.head(1, false)
			_ = p.WriteRSTStream(1, http2.ErrCodeCancel)
			_ = p.WriteData(1, true, p.usual())
		}, ``},
		"a second head":   {func(p *peer) { p.head(1, false); p.head(1, false) }, `RESET 1 PROTOCOL_ERROR`},
		"an empty window": {func(p *peer) { p.head(1, false); _ = p.WriteWindowUpdate(1, 0) }, `RESET 1 PROTOCOL_ERROR`},
		"a huge window":   {func(p *peer) { p.head(1, false); _ = p.WriteWindowUpdate(1, 1<<31-1) }, `RESET 1 FLOW_CONTROL_ERROR`},
	} {
		t.Run(name, func(t *testing.T) {
			p := greeted(t, nil)
			c.do(p)
			if got := p.send(); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if p.conn.closed != nil {
				t.Errorf("the connection is closed: %v", p.conn.closed)
			}
			p.idle()
			p.head(3, false)
			_ = p.WriteData(3, true, p.usual())
			if got := p.send(); p.guest.denies == nil && got != strings.ReplaceAll(answered, " 1 ", " 3 ") {
				t.Errorf("the next call: %s", got)
			}
		})
	}
}

// TestBrokenConnections sends what HTTP/2 forbids.
func TestBrokenConnections(t *testing.T) {
	setting := func(id http2.SettingID, value uint32) func(*peer) {
		return func(p *peer) { _ = p.WriteSettings(http2.Setting{ID: id, Val: value}) }
	}
	frame := func(kind http2.FrameType, flags http2.Flags, stream uint32, payload string) func(*peer) {
		return func(p *peer) { _ = p.WriteRawFrame(kind, flags, stream, []byte(payload)) }
	}
	for name, c := range map[string]struct {
		do   func(p *peer)
		want string
	}{
		"data on no stream":      {frame(http2.FrameData, 0, 0, ""), "GOAWAY 0 PROTOCOL_ERROR"},
		"data on a new stream":   {frame(http2.FrameData, 0, 1, "x"), "GOAWAY 0 PROTOCOL_ERROR"},
		"more padding than data": {func(p *peer) { p.head(1, false); frame(http2.FrameData, http2.FlagDataPadded, 1, "\x05x")(p) }, "GOAWAY 1 PROTOCOL_ERROR"},
		"an even stream":         {func(p *peer) { p.head(2, true) }, "GOAWAY 0 PROTOCOL_ERROR"},
		"a stream that was":      {func(p *peer) { p.head(3, true); p.head(1, true) }, "HEADERS 3 :status=200 grpc-status=13 grpc-message=there is no whole message END; GOAWAY 3 STREAM_CLOSED"},
		"no fields":              {frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\xff"), "GOAWAY 0 COMPRESSION_ERROR"},
		"half a field":           {frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x40\x05a"), "GOAWAY 0 COMPRESSION_ERROR"},
		"a stream on itself":     {frame(http2.FrameHeaders, http2.FlagHeadersPriority, 1, "\x00\x00\x00\x01\x10"), "GOAWAY 0 PROTOCOL_ERROR"},
		"a priority cut short":   {frame(http2.FrameHeaders, http2.FlagHeadersPriority, 1, "\x00"), "GOAWAY 0 PROTOCOL_ERROR"},
		"a head cut off":         {func(p *peer) { frame(http2.FrameHeaders, 0, 1, "")(p); _ = p.WritePing(false, [8]byte{}) }, "GOAWAY 0 PROTOCOL_ERROR"},
		"another stream's head":  {func(p *peer) { frame(http2.FrameHeaders, 0, 1, "")(p); _ = p.WriteContinuation(3, true, nil) }, "GOAWAY 0 PROTOCOL_ERROR"},
		"a head's end alone":     {func(p *peer) { _ = p.WriteContinuation(1, true, nil) }, "GOAWAY 0 PROTOCOL_ERROR"},
		"endless heads": {func(p *peer) {
			frame(http2.FrameHeaders, 0, 1, "")(p)
			for range 3 {
				_ = p.WriteContinuation(1, false, make([]byte, maxFrame))
			}
		}, "GOAWAY 0 ENHANCE_YOUR_CALM too many headers"},
		"a small frame size":      {setting(http2.SettingMaxFrameSize, 1), "GOAWAY 0 PROTOCOL_ERROR"},
		"a push of 2":             {setting(http2.SettingEnablePush, 2), "GOAWAY 0 PROTOCOL_ERROR"},
		"a window of 2 GB":        {setting(http2.SettingInitialWindowSize, 1<<31), "GOAWAY 0 FLOW_CONTROL_ERROR"},
		"settings of 5 bytes":     {frame(http2.FrameSettings, 0, 0, "xxxxx"), "GOAWAY 0 FRAME_SIZE_ERROR"},
		"settings of a stream":    {frame(http2.FrameSettings, 0, 1, ""), "GOAWAY 0 PROTOCOL_ERROR"},
		"an answer with settings": {frame(http2.FrameSettings, http2.FlagSettingsAck, 0, "xxxxxx"), "GOAWAY 0 FRAME_SIZE_ERROR"},
		"a ping of 7 bytes":       {frame(http2.FramePing, 0, 0, "xxxxxxx"), "GOAWAY 0 FRAME_SIZE_ERROR"},
		"a window of 3 bytes":     {frame(http2.FrameWindowUpdate, 0, 0, "xxx"), "GOAWAY 0 FRAME_SIZE_ERROR"},
		"a window of 0":           {func(p *peer) { _ = p.WriteWindowUpdate(0, 0) }, "GOAWAY 0 PROTOCOL_ERROR"},
		"a window beyond 2 GB":    {func(p *peer) { _ = p.WriteWindowUpdate(0, 1<<31-1) }, "GOAWAY 0 FLOW_CONTROL_ERROR"},
		"a new stream's window":   {func(p *peer) { _ = p.WriteWindowUpdate(1, 1) }, "GOAWAY 0 PROTOCOL_ERROR"},
		"a new stream's reset":    {func(p *peer) { _ = p.WriteRSTStream(1, 0) }, "GOAWAY 0 PROTOCOL_ERROR"},
		"a reset of 3 bytes":      {frame(http2.FrameRSTStream, 0, 1, "xxx"), "GOAWAY 0 FRAME_SIZE_ERROR"},
		"a priority of 4 bytes":   {frame(http2.FramePriority, 0, 1, "xxxx"), "GOAWAY 0 FRAME_SIZE_ERROR"},
		"a goodbye of 7 bytes":    {frame(http2.FrameGoAway, 0, 0, "xxxxxxx"), "GOAWAY 0 FRAME_SIZE_ERROR"},
		"a push":                  {frame(http2.FramePushPromise, 0, 1, "\x00\x00\x00\x02"), "GOAWAY 0 PROTOCOL_ERROR"},
		"a frame of 16 MB":        {func(p *peer) { p.in.WriteString("\xff\xff\xff\x00\x00\x00\x00\x00\x01") }, "GOAWAY 0 FRAME_SIZE_ERROR"},
		"more than the window": {func(p *peer) {
			p.head(1, false)
			for range 5 {
				_ = p.WriteData(1, false, make([]byte, maxFrame))
			}
		}, ""},
		"more data than all takes": {func(p *peer) { p.x.room = 10; p.head(1, false); _ = p.WriteData(1, false, make([]byte, 11)) }, "GOAWAY 1 FLOW_CONTROL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			p := greeted(t, nil)
			c.do(p)
			if got := p.send(); got != c.want && c.want != "" {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if (p.conn.closed == nil) != (c.want == "") {
				t.Errorf("closed: %v", p.conn.closed)
			}
			p.x.Closed(errProtocol)
			if p.guest.holds != 0 || p.guest.waits != 0 || !p.guest.left {
				t.Errorf("afterwards it holds %d, waits since %d, and has left: %v", p.guest.holds, p.guest.waits, p.guest.left)
			}
		})
	}
}

// TestHarmlessFrames sends what means nothing.
func TestHarmlessFrames(t *testing.T) {
	p := greeted(t, nil)
	_ = p.WritePriority(1, http2.PriorityParam{StreamDep: 3})
	_ = p.WriteGoAway(0, http2.ErrCodeNo, nil)
	_ = p.WriteRawFrame(99, 0, 7, []byte("x"))
	_ = p.WriteSettingsAck()
	p.head(1, false)
	_ = p.WriteData(1, true, p.usual())
	if got := p.send(); got != answered {
		t.Error(got)
	}
}

// TestWindows takes an answer in parts, as the windows of the stream and of the connection allow.
func TestWindows(t *testing.T) {
	p := greeted(t, nil, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	p.head(1, false)
	_ = p.WriteData(1, true, p.usual())
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "HEADERS 1 :status=200; DATA 1 10"},
		{func() { _ = p.WriteWindowUpdate(1, 5) }, "DATA 1 5"},
		{func() { _ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) }, "SETTINGS ACK"},
		{func() { _ = p.WriteWindowUpdate(1, 11) }, "DATA 1 1"},
		{func() { p.x.window = 0; _ = p.WriteWindowUpdate(1, 100) }, ""},
		{func() { _ = p.WriteWindowUpdate(0, 4) }, "DATA 1 4"},
		{func() { _ = p.WriteWindowUpdate(0, 100) }, "DATA 1 7; HEADERS 1 grpc-status=0 END"},
	} {
		step.do()
		if got := p.send(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
		if held := int64(len("x")); i < 6 && p.guest.holds < held {
			t.Errorf("step %d: it holds %d bytes", i, p.guest.holds)
		}
	}
	p.idle()
}

// TestManyStreams begins more calls than a connection may have.
func TestManyStreams(t *testing.T) {
	p := greeted(t, nil)
	for i := range uint32(maxStreams) {
		p.head(2*i+1, false)
	}
	if got := p.send(); got != "" || p.guest.waits != p.guest.now {
		t.Errorf("%.100s, waits since %d", got, p.guest.waits)
	}
	p.head(2*maxStreams+1, false)
	if got := p.send(); got != fmt.Sprint("RESET ", 2*maxStreams+1, " REFUSED_STREAM") {
		t.Error(got)
	}
	for i := range uint32(maxStreams) {
		_ = p.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	if got := p.send(); got != "" {
		t.Error(got)
	}
	p.idle()
}

// TestWaitingCalls resets calls whose commands wait: until these are over, they count.
func TestWaitingCalls(t *testing.T) {
	end := make(chan struct{})
	p := greeted(t, func(_ *peer, o *Options) {
		o.Begin = func(context.Context, [][]byte) ([]byte, func(context.Context) ([]byte, error)) {
			return nil, func(context.Context) ([]byte, error) { <-end; return []byte(granted), nil }
		}
	})
	for i := range uint32(maxStreams) {
		p.head(2*i+1, false)
		_ = p.WriteData(2*i+1, true, p.usual())
		if i > 0 {
			_ = p.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}
		if got := p.send(); got != "" {
			t.Fatal(got)
		}
	}
	p.head(2*maxStreams+1, false)
	if got := p.send(); got != fmt.Sprint("RESET ", 2*maxStreams+1, " REFUSED_STREAM") || p.guest.holds == 0 {
		t.Errorf("%s, and holds %d", got, p.guest.holds)
	}
	close(end)
	p.s.waits.Wait()
	p.x.Resume()
	if got := p.said(); got != answered {
		t.Error(got)
	}
	p.idle()
}

// TestTurns yields in the middle of the input.
func TestTurns(t *testing.T) {
	p := greeted(t, nil)
	p.s.Now = func() int64 { p.now += int64(2 * time.Second); return p.now }
	p.head(1, false)
	_ = p.WriteData(1, true, p.usual())
	if more := p.x.Data(bytes.Clone(p.in.Bytes())); more || !p.conn.yielded || p.said() != "" {
		t.Errorf("more %v, yielded %v", more, p.conn.yielded)
	}
	if more := p.x.Resume(); !more || p.said() != answered {
		t.Error("the rest is not answered")
	}
	p.idle()
}

// TestPings asks too often, and is asked when it is silent.
func TestPings(t *testing.T) {
	p := greeted(t, nil)
	ping := func(after time.Duration) string {
		p.guest.now += int64(after)
		_ = p.WritePing(false, [8]byte([]byte("12345678")))
		return p.send()
	}
	const pong = "PING 12345678 ACK"
	for _, after := range []time.Duration{pingLeast, pingLeast, 0, 0} {
		if got := ping(after); got != pong {
			t.Errorf("after %v: %s", after, got)
		}
	}
	p.head(1, false)
	_ = p.WriteData(1, true, p.usual())
	p.send()
	for range 3 { // the first one after an answer does not count
		if got := ping(0); got != pong {
			t.Errorf("after an answer: %s", got)
		}
	}
	if got := ping(0); got != "GOAWAY 1 ENHANCE_YOUR_CALM too_many_pings" || !errors.Is(p.conn.closed, errPings) {
		t.Errorf("%s, closed: %v", got, p.conn.closed)
	}

	p = greeted(t, nil)
	tick := func(after time.Duration) string {
		p.now += int64(after)
		p.s.Tick()
		select {
		case <-p.conn.woken:
			p.x.Resume()
		default:
		}
		return p.said()
	}
	p.x.heard.Store(p.now)
	if got := tick(pingEvery - 1); got != "" {
		t.Error(got)
	}
	if got := tick(1); got != "PING limitdb?" {
		t.Error(got)
	}
	p.guest.now = p.now
	_ = p.WritePing(true, [8]byte([]byte("limitdb?")))
	p.send()
	if got := tick(pingWait); got != "" || p.conn.closed != nil {
		t.Errorf("%s, closed: %v", got, p.conn.closed)
	}
	if got := tick(pingEvery); got != "PING limitdb?" {
		t.Error(got)
	}
	if tick(pingWait - 1); p.conn.closed != nil {
		t.Error(p.conn.closed)
	}
	if tick(1); !errors.Is(p.conn.closed, errSilent) {
		t.Error(p.conn.closed)
	}
}

// TestLeaving stops while a client begins calls: those that it has begun before it knows are answered.
func TestLeaving(t *testing.T) {
	p := greeted(t, nil)
	p.head(1, false)
	p.send()
	p.s.stopping.Store(true)
	p.x.Resume()
	if got := p.said(); got != "GOAWAY 2147483647 NO_ERROR; PING limitdb!" {
		t.Error(got)
	}
	p.head(3, false)
	_ = p.WritePing(true, [8]byte([]byte(lastPing)))
	p.head(5, false)
	if got := p.send(); got != "GOAWAY 3 NO_ERROR; RESET 5 REFUSED_STREAM" || p.conn.closed != nil {
		t.Errorf("%s, closed: %v", got, p.conn.closed)
	}
	for _, stream := range []uint32{1, 3} {
		_ = p.WriteData(stream, true, p.usual())
		if got := p.send(); got != strings.ReplaceAll(answered, " 1 ", fmt.Sprint(" ", stream, " ")) {
			t.Error(got)
		}
	}
	if !errors.Is(p.conn.closed, errStopped) {
		t.Errorf("closed: %v", p.conn.closed)
	}
}

// TestInputIsBounded sends frames that never end, and looks at what is held.
func TestInputIsBounded(t *testing.T) {
	p := newPeer(t, nil)
	if p.guest.waits == 0 {
		t.Error("nobody waits for the preface")
	}
	p = greeted(t, nil)
	p.x.Data(append([]byte("\x00\x40\x00\x00\x00\x00\x00\x00\x01"), make([]byte, maxFrame-1)...))
	if p.guest.holds != frameHead+maxFrame-1 || p.guest.waits == 0 {
		t.Errorf("holds %d, waits since %d", p.guest.holds, p.guest.waits)
	}
}

// FuzzSession sends any bytes, in parts.
func FuzzSession(f *testing.F) {
	seed := greeted(f, nil)
	seed.head(1, false)
	_ = seed.WriteData(1, false, seed.usual())
	_ = seed.WriteData(1, true, nil)
	_ = seed.WriteWindowUpdate(1, 5)
	_ = seed.WriteRSTStream(1, 0)
	_ = seed.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
	seed.head(3, true, ":path", "/"+healthName+"/Watch")
	_ = seed.WritePing(true, [8]byte{})
	seed.head(5, false, ":path", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "content-length", "99")
	_ = seed.WriteData(5, false, bytes.Repeat(prefixed([]byte{askList<<3 | 2, 0}), 3))
	_ = seed.WriteWindowUpdate(5, 1000)
	_ = seed.WriteWindowUpdate(0, 1000)
	f.Add(bytes.Clone(seed.in.Bytes()), 7)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		p := greeted(t, func(_ *peer, o *Options) { o.Reflection = true })
		for len(b) > 0 && p.conn.closed == nil {
			n := min(max(1, size), len(b))
			p.x.Data(bytes.Clone(b[:n]))
			b = b[n:]
			p.counts()
		}
		p.said()
		p.x.Closed(errProtocol)
		if p.guest.holds != 0 || p.guest.waits != 0 || !p.guest.left {
			t.Errorf("it holds %d, waits since %d, and has left: %v", p.guest.holds, p.guest.waits, p.guest.left)
		}
	})
}
