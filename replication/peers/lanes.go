package peers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/hashicorp/raft"
)

// lanes is the other end of a mux: a lane for each group that is open on it.
type lanes struct {
	port *Port
	out  combined
	name string // the raft-id of the node that has called
	of   map[int]*lane
	all  sync.WaitGroup
	done chan struct{}
}

// lane hands the requests of one group to Raft, in their order, and sends the answers. Raft answers them in the same order.
type lane struct {
	l       *Layer
	answers chan raft.RPCResponse

	mu      sync.Mutex // guards all below
	closed  bool
	numbers chan uint32 // of the requests that Raft has not answered
}

// laneMost is how many requests of a group Raft may have to answer. Its leader sends two at a time, of which it gives one up after Timeout.
const laneMost = 8

// serveMux serves the other end of a mux, which the hello h has opened for a layer, until the connection ends.
func (p *Port) serveMux(conn net.Conn, l *Layer, h *Hello) {
	s := &lanes{port: p, out: combined{conn: conn}, name: NameOf(h.From), of: map[int]*lane{}, done: make(chan struct{})}
	s.open(l)
	err := s.read(bufio.NewReaderSize(conn, muxRead))
	close(s.done)
	_ = conn.Close()
	s.all.Wait()
	if errors.Is(err, errMessage) || errors.Is(err, errHello) {
		p.refused.Add(1)
		p.log.Warn("a connection on the Raft port is closed", "addr", conn.RemoteAddr().String(), "err", err)
	}
}

// read reads requests until the connection ends.
func (s *lanes) read(r *bufio.Reader) error {
	for {
		f, err := readFrame(r, nil) // Raft keeps entries, which are parts of the payload
		if err != nil {
			return err
		}
		switch f.kind {
		case kindOpen:
			err = s.hello(f)
		case kindEntries:
			var req raft.AppendEntriesRequest
			if err = parseRequest(f.payload, &req); err == nil {
				err = s.pass(f, &req)
			}
		default:
			err = errMessage
		}
		if err != nil {
			return err
		}
	}
}

// hello answers the hello of a group.
func (s *lanes) hello(f frame) error {
	var h Hello
	if json.Unmarshal(f.payload, &h) != nil || h.From == "" {
		return errHello
	}
	h.Group = f.group
	answer := Hello{From: h.To, Group: f.group}
	s.port.mu.Lock()
	l := s.port.layers[f.group]
	s.port.mu.Unlock()
	switch {
	case NameOf(h.From) != s.name:
		return errHello
	case l == nil:
		answer.Refused = fmt.Sprintf("this node has no replica of group %d", f.group)
	default:
		answer = l.answer(&h, CallMux)
		if answer.Refused == "" {
			s.open(l)
		}
	}
	text, err := answer.text()
	if err != nil {
		return err
	}
	return s.out.send(frame{kind: kindHello, group: f.group, number: f.number, payload: text}, nil)
}

// open opens a lane for a layer, unless there is one.
func (s *lanes) open(l *Layer) {
	if old := s.of[l.group]; old != nil && old.l == l {
		return
	}
	a := &lane{l: l, answers: make(chan raft.RPCResponse, laneMost), numbers: make(chan uint32, laneMost)}
	s.of[l.group] = a
	s.all.Go(func() { a.answer(s) })
}

// pass passes a request on to Raft.
func (s *lanes) pass(f frame, req *raft.AppendEntriesRequest) error {
	a := s.of[f.group]
	if a == nil || !a.pass(req, f.number) {
		return s.out.send(frame{kind: kindClosed, group: f.group, number: f.number}, nil)
	}
	return nil
}

// pass reports whether Raft has got the request.
func (a *lane) pass(req *raft.AppendEntriesRequest, number uint32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.numbers) == laneMost {
		return false
	}
	select {
	case a.l.rpcs <- raft.RPC{Command: req, RespChan: a.answers}:
		a.numbers <- number
		return true
	default:
		return false
	}
}

// answer sends the answers of Raft until the layer or the connection is closed.
func (a *lane) answer(s *lanes) {
	for a.next(s) {
	}
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	for {
		select {
		case number := <-a.numbers:
			_ = s.out.send(frame{kind: kindClosed, group: a.l.group, number: number}, nil)
		default:
			return
		}
	}
}

// next sends the next answer, and reports whether there may be more.
func (a *lane) next(s *lanes) bool {
	var r raft.RPCResponse
	select {
	case r = <-a.answers:
	case <-a.l.done:
		return false
	case <-s.done:
		return false
	}
	answer, ok := r.Response.(*raft.AppendEntriesResponse)
	if !ok {
		answer, r.Error = &raft.AppendEntriesResponse{}, errors.Join(r.Error, errMessage)
	}
	a.mu.Lock() // pass has put the number in
	number := <-a.numbers
	a.mu.Unlock()
	return s.out.send(frame{kind: kindAnswer, group: a.l.group, number: number}, func(b []byte) []byte { return appendAnswer(b, answer, r.Error) }) == nil
}
