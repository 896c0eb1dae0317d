package envoyrls

import (
	"encoding/binary"

	"limitdb/transport"
)

// What a session does with each frame that comes in.

// frame reads one frame, and returns its length, 0 if there is none.
func (x *session) frame(b []byte) (n int) {
	if x.over {
		return 0
	}
	if !x.greeted {
		return x.greet(b)
	}
	if len(b) < frameHead {
		return 0
	}
	length := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	if length > maxFrame {
		x.broken(frameSizeError)
		return 0
	}
	if n = frameHead + length; len(b) < n {
		return 0
	}
	kind, flags, stream := b[3], b[4], binary.BigEndian.Uint32(b[5:])&maxWindow
	switch {
	case !x.settled && (kind != typeSettings || flags&flagEnd != 0):
		x.broken(protocolError)
	case (x.opens != 0) != (kind == typeContinuation) || x.opens != 0 && stream != x.opens:
		x.broken(protocolError)
	default:
		x.read(kind, flags, stream, b[frameHead:n])
	}
	return n
}

// greet reads the preface.
func (x *session) greet(b []byte) (n int) {
	n = min(len(b), len(preface))
	if string(b[:n]) != preface[:n] {
		x.over = true
		x.conn.Close(errPreface)
		return 0
	}
	if n < len(preface) {
		return 0
	}
	x.greeted = true
	if c, ok := x.conn.(transport.Certified); ok {
		if name := c.CertifiedName(); name != "" {
			x.guest.Certified(name)
		}
	}
	x.out = appendSettings(x.out, settingStreams, maxStreams, settingWindow, streamWindow, settingHeadersList, maxHeaders)
	x.out = appendWindow(x.out, 0, connWindow-firstWindow)
	return n
}

// read reads a frame.
func (x *session) read(kind, flags byte, stream uint32, payload []byte) {
	onStream := kind == typeData || kind == typeHeaders || kind == typePriority || kind == typeReset || kind == typeContinuation
	if kind != typeWindow && kind <= typeContinuation && onStream != (stream != 0) {
		x.broken(protocolError)
		return
	}
	switch kind {
	case typeData:
		x.data(stream, flags, payload)
	case typeHeaders:
		x.headers(stream, flags, payload)
	case typeContinuation:
		x.more(flags, payload)
	case typePriority:
		if len(payload) != 5 {
			x.broken(frameSizeError)
		}
	case typeReset:
		x.reset(stream, payload)
	case typeSettings:
		x.settings(flags, payload)
	case typePing:
		x.ping(flags, payload)
	case typeWindow:
		x.widen(stream, payload)
	case typePush:
		x.broken(protocolError)
	case typeGoAway: // means nothing, since the server opens no streams
		if len(payload) < 8 {
			x.broken(frameSizeError)
		}
	}
	// Other types are for extensions.
}

// settings takes the client's settings.
func (x *session) settings(flags byte, payload []byte) {
	if flags&flagEnd != 0 {
		if len(payload) != 0 {
			x.broken(frameSizeError)
		}
		return
	}
	if len(payload)%6 != 0 {
		x.broken(frameSizeError)
		return
	}
	if len(payload) > 6*maxSettings { // each may change the windows of all streams
		x.end(tooMuch, "too many settings", errProtocol)
		return
	}
	x.settled = true
	for ; len(payload) > 0; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case settingPush:
			if value > 1 {
				x.broken(protocolError)
				return
			}
		case settingFrame:
			if value < maxFrame || value > 1<<24-1 {
				x.broken(protocolError)
				return
			}
		case settingWindow:
			if value > maxWindow || !x.shift(int64(value)-x.initial) {
				x.broken(flowError)
				return
			}
			x.initial = int64(value)
		}
	}
	x.out = appendHead(x.out, 0, typeSettings, flagEnd, 0)
	x.unstick()
}

// shift changes the windows of all calls. It returns false if one becomes too large.
func (x *session) shift(by int64) (ok bool) {
	for _, c := range x.calls {
		if c.window += by; c.window > maxWindow {
			return false
		}
	}
	return true
}

// ping answers a PING, or takes the answer to one. Clients may ask seldom, and after each answer.
func (x *session) ping(flags byte, payload []byte) {
	if len(payload) != 8 {
		x.broken(frameSizeError)
		return
	}
	if flags&flagEnd != 0 {
		if x.leaving == warned && string(payload) == lastPing {
			x.leaving = leaves
			x.out = appendGoAway(x.out, x.last, noError, "")
		}
		return
	}
	if x.pingAt != 0 && x.now-x.pingAt < int64(pingLeast) {
		if x.strikes++; x.strikes > pingStrikes {
			x.end(tooMuch, "too_many_pings", errPings)
			return
		}
	}
	x.pingAt = x.now
	x.out = appendPing(x.out, flagEnd, payload)
}

// widen lets the session send more, on a stream or on all.
func (x *session) widen(stream uint32, payload []byte) {
	if len(payload) != 4 {
		x.broken(frameSizeError)
		return
	}
	by := int64(binary.BigEndian.Uint32(payload) & maxWindow)
	c := x.calls[stream]
	switch {
	case stream > x.last || stream != 0 && stream%2 == 0:
		x.broken(protocolError)
		return
	case stream == 0 && by == 0:
		x.broken(protocolError)
		return
	case stream == 0:
		if x.window += by; x.window > maxWindow {
			x.broken(flowError)
			return
		}
	case c == nil: // over already
		return
	case by == 0:
		c.cut(protocolError)
		return
	default:
		if c.window += by; c.window > maxWindow {
			c.cut(flowError)
			return
		}
	}
	x.unstick()
}

// reset ends a call that the client has given up.
func (x *session) reset(stream uint32, payload []byte) {
	switch {
	case len(payload) != 4:
		x.broken(frameSizeError)
	case stream > x.last || stream%2 == 0:
		x.broken(protocolError)
	default:
		if c := x.calls[stream]; c != nil {
			c.forget()
		}
	}
}

// headers begins the head of a call.
func (x *session) headers(stream uint32, flags byte, payload []byte) {
	payload, ok := unpadded(payload, flags)
	if flags&flagPriority != 0 && ok {
		if ok = len(payload) >= 5; ok {
			ok = binary.BigEndian.Uint32(payload)&maxWindow != stream
			payload = payload[5:]
		}
	}
	if !ok || stream%2 == 0 {
		x.broken(protocolError)
		return
	}
	x.opens, x.openEnd = stream, flags&flagEnd != 0
	if flags&flagEndHeaders != 0 {
		x.decode(payload)
		return
	}
	x.inSince = x.now
	x.block = append(x.block[:0], payload...)
}

// more continues a head.
func (x *session) more(flags byte, payload []byte) {
	if len(x.block)+len(payload) > maxBlock {
		x.end(tooMuch, "too many headers", errProtocol)
		return
	}
	x.block = append(x.block, payload...)
	if flags&flagEndHeaders != 0 {
		x.decode(x.block)
		x.block = nil
	}
}

// decode reads the fields of a head, and begins its call. Fields of streams that are over are read as well, since later ones refer to them.
func (x *session) decode(block []byte) {
	stream := x.opens
	x.opens = 0
	x.head = head{}
	_, err := x.dec.Write(block)
	if err == nil {
		err = x.dec.Close()
	}
	if err != nil {
		x.broken(compressionFail)
		return
	}
	switch c := x.calls[stream]; {
	case c != nil: // trailers
		switch {
		case c.ended:
			c.cut(streamClosed)
		case !x.openEnd || x.head.asks || x.head.bad || !c.agrees(true):
			c.cut(protocolError)
		default:
			c.finished()
		}
	case stream > x.last:
		x.last = stream
		x.begin(stream, x.openEnd)
	case !x.openEnd || x.head.asks: // else trailers of a call that was answered before
		x.broken(streamClosed)
	}
}

// data takes a part of a message.
func (x *session) data(stream uint32, flags byte, payload []byte) {
	n := int64(len(payload))
	if x.room -= n; x.room < 0 {
		x.broken(flowError)
		return
	}
	if x.room < connWindow/2 {
		x.out = appendWindow(x.out, 0, uint32(connWindow-x.room))
		x.room = connWindow
	}
	part, ok := unpadded(payload, flags)
	c := x.calls[stream]
	switch {
	case !ok || stream > x.last || stream%2 == 0:
		x.broken(protocolError)
		return
	case c == nil: // over already
		return
	case c.ended:
		c.cut(streamClosed)
		return
	}
	if c.room -= n; c.room < 0 {
		c.cut(flowError)
		return
	}
	ends := flags&flagEnd != 0
	if c.got += int64(len(part)); !c.agrees(ends) {
		c.cut(protocolError)
		return
	}
	if c.end != "" { // it is answered, and the client has not taken all
		if ends {
			c.completed()
		}
		return
	}
	if !ends && c.room < streamWindow/2 {
		x.out = appendWindow(x.out, stream, uint32(streamWindow-c.room))
		c.room = streamWindow
	}
	c.take(part, ends)
}
