package envoyrls

import "encoding/binary"

// The frames of HTTP/2, RFC 9113: what the port reads and writes of them.

// preface is what a client sends first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// The bounds of frames, in bytes.
const (
	frameHead   = 9
	maxFrame    = 16 << 10 // of a payload, both ways; RFC 9113 lets no peer have a smaller bound
	firstWindow = 65535    // of a stream and of a connection, until something else is agreed on
	maxWindow   = 1<<31 - 1
)

// The types of frames.
const (
	typeData = iota
	typeHeaders
	typePriority
	typeReset
	typeSettings
	typePush
	typePing
	typeGoAway
	typeWindow
	typeContinuation
)

// The flags of frames.
const (
	flagEnd        = 0x1 // of the stream; in answers to SETTINGS and PING: that it is one
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// The settings that the port knows.
const (
	settingPush        = 2
	settingStreams     = 3
	settingWindow      = 4
	settingFrame       = 5
	settingHeadersList = 6
)

// The codes of errors of HTTP/2.
const (
	noError         = 0
	protocolError   = 1
	flowError       = 3
	streamClosed    = 5
	frameSizeError  = 6
	refusedStream   = 7
	cancelled       = 8
	compressionFail = 9
	tooMuch         = 11 // ENHANCE_YOUR_CALM
)

// appendHead appends the head of a frame.
func appendHead(b []byte, length int, kind, flags byte, stream uint32) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), kind, flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

// appendReset appends a frame that ends a stream for a reason.
func appendReset(b []byte, stream, why uint32) []byte {
	return binary.BigEndian.AppendUint32(appendHead(b, 4, typeReset, 0, stream), why)
}

// appendWindow appends a frame that lets the client send n more bytes, on a stream or, with 0, on the connection.
func appendWindow(b []byte, stream, n uint32) []byte {
	return binary.BigEndian.AppendUint32(appendHead(b, 4, typeWindow, 0, stream), n)
}

// appendPing appends a PING, or with flagEnd the answer to one.
func appendPing(b []byte, flags byte, data []byte) []byte {
	return append(appendHead(b, 8, typePing, flags, 0), data...)
}

// appendGoAway appends a frame that says that no stream after last is served, and why.
func appendGoAway(b []byte, last, why uint32, text string) []byte {
	b = appendHead(b, 8+len(text), typeGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, why)
	return append(b, text...)
}

// appendSettings appends a SETTINGS frame of numbers and values.
func appendSettings(b []byte, pairs ...uint32) []byte {
	b = appendHead(b, 3*len(pairs), typeSettings, 0, 0)
	for i := 0; i < len(pairs); i += 2 {
		b = binary.BigEndian.AppendUint16(b, uint16(pairs[i]))
		b = binary.BigEndian.AppendUint32(b, pairs[i+1])
	}
	return b
}

// unpadded returns a payload without its padding. ok is false if there is more padding than payload.
func unpadded(payload []byte, flags byte) (rest []byte, ok bool) {
	if flags&flagPadded == 0 {
		return payload, true
	}
	if len(payload) == 0 || int(payload[0]) >= len(payload) {
		return nil, false
	}
	return payload[1 : len(payload)-int(payload[0])], true
}
