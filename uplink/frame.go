// Package uplink carries the commands of one node's clients to another node, and the replies back. One
// connection, the uplink, has a stream for each client. At the node that is called, a stream is a
// transport.Conn with an ordinary session; replication/PROTOCOL.md draws the frames.
package uplink

import (
	"encoding/binary"
	"errors"
	"io"
)

// A frame is a head of 9 bytes (length of the payload, stream, kind; little-endian) and a payload.
const (
	headSize = 9
	// maxFrame is the longest payload. Longer data is sent in several frames.
	maxFrame = 64 << 10
)

// The kinds of frames. The node that calls sends all of them, the other one kindData, kindClose and kindStamp.
const (
	kindOpen  byte = 1 + iota // a stream begins: the Client
	kindData                  // commands, or replies
	kindEnd                   // the client sends nothing more
	kindClose                 // the stream is over: a Cause, or nothing
	kindStamp                 // of no stream: a stamp, see lease.go
)

// A Cause says why a stream is over.
type Cause byte

// The causes.
const (
	// Lost means that the uplink has ended: commands that were sent and not answered may have run.
	Lost Cause = iota
	// Refused means that the other node does not lead, or that the lease of the uplink had run out: it has begun no
	// command that it has not answered.
	Refused
	// Closed means that the other node has closed the client's session, as for CLIENT KILL.
	Closed
	// Finished means that the client has sent its last command, and all are answered.
	Finished
)

// ErrNotLeading and ErrNoLease are the reasons with which a session closes its connection when it gets a command that
// it must not begin: because only a leader may, or because of Conn.Leased. They become Refused.
var (
	ErrNotLeading = errors.New("uplink: this node does not lead")
	ErrNoLease    = errors.New("uplink: the client's node was not heard for too long")
)

var errFrame = errors.New("uplink: a frame that no node of this version sends")

// appendFrame appends frames with the whole payload.
func appendFrame(b []byte, stream uint32, kind byte, payload []byte) []byte {
	for {
		part := payload[:min(len(payload), maxFrame)]
		payload = payload[len(part):]
		b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
		b = binary.LittleEndian.AppendUint32(b, stream)
		b = append(append(b, kind), part...)
		if len(payload) == 0 {
			return b
		}
	}
}

// frame is a frame that was read. Its payload is valid until the next one is read.
type frame struct {
	stream  uint32
	kind    byte
	payload []byte
}

// frameReader reads frames. It holds one, and no more than its peer has sent.
type frameReader struct {
	from interface {
		io.Reader
		Buffered() int
		Peek(n int) ([]byte, error)
	}
	buf []byte
}

func (r *frameReader) next() (frame, error) {
	head, err := r.from.Peek(headSize)
	if err != nil {
		return frame{}, err
	}
	n := binary.LittleEndian.Uint32(head)
	f := frame{stream: binary.LittleEndian.Uint32(head[4:]), kind: head[8]}
	if n > maxFrame || f.kind < kindOpen || f.kind > kindStamp {
		return frame{}, errFrame
	}
	if cap(r.buf) < headSize+int(n) {
		r.buf = make([]byte, headSize+maxFrame)
	}
	b := r.buf[:headSize+int(n)]
	if _, err := io.ReadFull(r.from, b); err != nil {
		return frame{}, err
	}
	f.payload = b[headSize:]
	return f, nil
}

// more reports whether a whole frame has been received already.
func (r *frameReader) more() bool {
	if r.from.Buffered() < headSize {
		return false
	}
	head, err := r.from.Peek(headSize)
	return err == nil && r.from.Buffered() >= headSize+int(min(maxFrame, binary.LittleEndian.Uint32(head)))
}

// Client describes a client to the other node.
type Client struct {
	// Remote and Local are the ends of the client's connection, as strings of net.Addr. Unix is set for a
	// unix socket, TLS for an encrypted connection.
	Remote, Local string
	Unix, TLS     bool
	RESP3         bool
	Name          string
	User          string // whose rights the client has; "" for default
}

// defaultUser is the user that is not named to the other node, which may be of a version that knows no other.
const defaultUser = "default"

// maxText is the longest text of a Client. Longer ones are cut.
const maxText = 1024

func (c *Client) appendTo(b []byte) []byte {
	flags := byte(0)
	for i, on := range [...]bool{c.Unix, c.TLS, c.RESP3} {
		if on {
			flags |= 1 << i
		}
	}
	b = append(b, flags)
	texts := []string{c.Remote, c.Local, c.Name}
	if c.User != "" && c.User != defaultUser {
		b[len(b)-1] |= hasUser
		texts = append(texts, c.User)
	}
	for _, text := range texts {
		text = text[:min(len(text), maxText)]
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(text))), text...)
	}
	return b
}

// hasUser is the flag of a Client that names a user.
const hasUser = 8

func parseClient(b []byte) (c Client, ok bool) {
	if len(b) == 0 || b[0] > 15 {
		return c, false
	}
	texts := []*string{&c.Remote, &c.Local, &c.Name}
	if b[0]&hasUser != 0 {
		texts = append(texts, &c.User)
	}
	c.Unix, c.TLS, c.RESP3 = b[0]&1 != 0, b[0]&2 != 0, b[0]&4 != 0
	b = b[1:]
	for _, to := range texts {
		if len(b) < 2 {
			return c, false
		}
		n := int(binary.LittleEndian.Uint16(b))
		if b = b[2:]; n > len(b) || n > maxText {
			return c, false
		}
		*to, b = string(b[:n]), b[n:]
	}
	return c, len(b) == 0
}
