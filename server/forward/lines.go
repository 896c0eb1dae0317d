package forward

import (
	"sync"

	"limitdb/resp"
	"limitdb/uplink"
)

// maxLines is the most idle lines that are kept, and mostReply the longest reply, in bytes.
const (
	maxLines  = 256
	mostReply = 64 << 10
)

// Lines are streams to other nodes, each for one command at a time, whose reply is told to whoever has sent the command. Its zero value is ready to use.
type Lines struct{ idle[*line] }

// Told is told what has become of a command: the reply, which is valid during the call, or nil if there is none. Then refused says that the other node
// has not begun the command. It is called from any goroutine, and must not block.
type Told func(reply []byte, refused bool)

// Ask sends a command over an uplink, for a client as it is described to the other node. It returns false if it has sent nothing. Otherwise told is
// called once.
func (ls *Lines) Ask(link *uplink.Link, client uplink.Client, command []byte, told Told) (sent bool) {
	fits := func(l *line) bool { return l.client == client && l.stream.Of(link) }
	for l, ok := ls.pop(fits); ok; l, ok = ls.pop(fits) {
		if l.send(command, told) {
			return true
		}
		l.Close()
	}
	l := &line{of: ls, client: client}
	l.mu.Lock() // Received may come before there is a command
	l.stream = link.Open(&client, l)
	l.mu.Unlock()
	if l.stream == nil {
		return false
	}
	if l.send(command, told) {
		return true
	}
	l.stream.Close()
	return false
}

// line is one of Lines. It implements uplink.Receiver.
type line struct {
	of     *Lines
	client uplink.Client
	stream *uplink.Stream

	mu    sync.Mutex // guards what follows
	told  Told       // of the command under way; nil: there is none
	reply []byte
	scan  resp.ReplyScanner
	over  bool
}

// Close ends the line's stream.
func (l *line) Close() { l.stream.Close() }

// send sends a command, and reports whether it has.
func (l *line) send(command []byte, told Told) bool {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return false
	}
	l.told = told
	l.mu.Unlock()
	if l.stream.Send(command) {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Ended may have told it meanwhile.
	unsent := l.told != nil
	l.told = nil
	return !unsent
}

// Received implements uplink.Receiver.
func (l *line) Received(b []byte) {
	l.mu.Lock()
	if l.told == nil { // nobody has asked for anything
		l.over = true
	}
	if l.over {
		l.mu.Unlock()
		l.of.drop(l)
		l.stream.Close()
		return
	}
	n, whole, err := l.scan.Scan(b)
	l.reply = append(l.reply, b[:n]...)
	if bad := err != nil || n < len(b) || len(l.reply) > mostReply; !bad && !whole {
		l.mu.Unlock()
		return
	} else if bad {
		l.over, l.reply = true, nil
	}
	told, reply, over := l.told, l.reply, l.over
	l.told, l.reply = nil, nil
	l.mu.Unlock()
	if over {
		l.stream.Close()
	} else {
		l.of.put(l, maxLines)
	}
	told(reply, false)
}

// Ended implements uplink.Receiver.
func (l *line) Ended(cause uplink.Cause) {
	l.mu.Lock()
	told, begun := l.told, len(l.reply) > 0
	l.told, l.over = nil, true
	l.mu.Unlock()
	l.of.drop(l)
	if told != nil {
		told(nil, cause == uplink.Refused && !begun)
	}
}
