package peers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Frames of a mux:
//
//	0        4       8        12     13
//	┌────────┬───────┬────────┬──────┬─────────┐
//	│ length │ group │ number │ kind │ payload │
//	└────────┴───────┴────────┴──────┴─────────┘
//
// The length is that of the payload. An answer has the group and the number of what it answers.
const (
	frameHead = 4 + 4 + 4 + 1
	// maxEntries is the longest payload of kindEntries, and maxAnswer the longest of all others. A message has more than appendBytes only
	// if a single entry does.
	maxEntries = 16 << 20
	maxAnswer  = 16 << 10
)

// kind says what a frame is.
type kind byte

const (
	kindOpen    kind = iota + 1 // the hello of a group of the caller's; the hello of a connection opens the first group
	kindEntries                 // a request of Raft, of a group that is open
	kindHello                   // the answer to kindOpen; the group is open unless it refuses
	kindAnswer                  // the answer to kindEntries
	kindClosed                  // the answer to kindEntries of a group that is not open, or no more
)

// frame is one that was read.
type frame struct {
	kind    kind
	group   int
	number  uint32
	payload []byte
}

// readFrame reads a frame into room, if that is large enough. It returns errMessage for one that is too long, and takes no more memory for a payload than
// twice what has come of it.
func readFrame(r *bufio.Reader, room []byte) (f frame, err error) {
	head, err := r.Peek(frameHead)
	if err != nil {
		return f, err
	}
	f = frame{kind: kind(head[12]), group: int(binary.LittleEndian.Uint32(head[4:])), number: binary.LittleEndian.Uint32(head[8:])}
	length, most := int64(binary.LittleEndian.Uint32(head[:])), int64(maxAnswer)
	if f.kind == kindEntries {
		most = maxEntries
	}
	if length > most {
		return f, errMessage
	}
	_, _ = r.Discard(frameHead)
	for b := room[:0]; ; {
		from := len(b)
		to := min(int(length), max(cap(b), 2*from, maxAnswer))
		if cap(b) < to {
			b = append(make([]byte, 0, to), b...)
		}
		b = b[:to]
		if _, err := io.ReadFull(r, b[from:]); err != nil {
			return f, noEnd(err)
		}
		if f.payload = b; len(b) == int(length) {
			return f, nil
		}
	}
}

// noEnd is err, if a connection may not end here.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// combined writes frames to a connection. Those that come while others are being written go out together.
type combined struct {
	conn net.Conn
	late *time.Timer // of whoever writes

	mu         sync.Mutex
	out, spare []byte
	busy       bool  // somebody writes
	err        error // of a write; the connection is closed then
}

// combinedKeep is the size up to which a buffer is kept for the next frames.
const combinedKeep = 64 << 10

// write writes b, and closes the connection if that takes longer than anybody waits for an answer.
func (c *combined) write(b []byte) error {
	if c.late == nil {
		c.late = time.AfterFunc(2*Timeout, func() { _ = c.conn.Close() })
	} else {
		c.late.Reset(2 * Timeout)
	}
	defer c.late.Stop()
	_, err := c.conn.Write(b)
	return err
}

// send sends a frame, whose payload fill appends. It returns when the frame is written, or when somebody else has undertaken to write it.
func (c *combined) send(f frame, fill func(b []byte) []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	at := len(c.out)
	b := binary.LittleEndian.AppendUint32(c.out, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(f.group))
	b = binary.LittleEndian.AppendUint32(b, f.number)
	b = append(append(b, byte(f.kind)), f.payload...)
	if fill != nil {
		b = fill(b)
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-frameHead))
	if c.out = b; c.busy {
		return nil
	}
	c.busy = true
	for len(c.out) > 0 && c.err == nil {
		b := c.out
		c.out, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		err := c.write(b)
		c.mu.Lock()
		if c.err = err; cap(b) <= combinedKeep {
			c.spare = b
		}
	}
	if c.busy = false; c.err != nil {
		_ = c.conn.Close()
	}
	return c.err
}
