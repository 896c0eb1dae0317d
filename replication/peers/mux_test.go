package peers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/testnet"
)

// layerOf returns a layer of another group at a peer's port, whose server id is that of the incarnation.
func (p *peer) layerOf(t *testing.T, group int, incarnation string) *Layer {
	t.Helper()
	l := p.Port.Layer(group)
	h := p.hello
	h.From = ServerID(NameOf(h.From), incarnation)
	l.Self = func() Hello { return h }
	l.Serve()
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// answers answers the requests of a layer as its Raft would, until the layer is closed: with its group as the term, and the index that the request has.
func answers(t *testing.T, l *Layer) {
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = l.Close() })
	all.Go(func() {
		for {
			select {
			case rpc := <-l.rpcs:
				req := rpc.Command.(*raft.AppendEntriesRequest)
				if req.PrevLogTerm > 0 {
					rpc.Respond(&raft.AppendEntriesResponse{}, fmt.Errorf("no term %d", req.PrevLogTerm))
				} else {
					rpc.Respond(&raft.AppendEntriesResponse{Term: uint64(l.group), LastLog: req.PrevLogEntry, Success: true}, nil)
				}
			case <-l.done:
				return
			}
		}
	})
}

// asks sends a request to a group at a peer, and fails if the answer is not that of the group to this request.
func asks(from *Layer, to *peer, server string, index uint64) error {
	var resp raft.AppendEntriesResponse
	if err := from.append(server, to.address, &raft.AppendEntriesRequest{PrevLogEntry: index}, &resp, nil); err != nil {
		return err
	}
	if resp.Term != uint64(from.group) || resp.LastLog != index || !resp.Success {
		return fmt.Errorf("request %d of group %d: %+v", index, from.group, resp)
	}
	return nil
}

// connections returns how many connections a port has accepted that are open.
func (p *Port) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Many requests of many groups go over one connection. Each gets its own answer.
func TestMux(t *testing.T) {
	const groups, askers, each = 5, 3, 200
	to, from := newPeer(t, "to", nil), newPeer(t, "from", nil)
	var all sync.WaitGroup
	for group := 2; group < 2+groups; group++ {
		answers(t, to.layerOf(t, group, "1"))
		l := from.layerOf(t, group, "1")
		for asker := range askers {
			all.Go(func() {
				for i := range each {
					if err := asks(l, to, "to@1", uint64(asker*each+i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	if n := to.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
	var resp raft.AppendEntriesResponse
	l := from.layerOf(t, 2, "1")
	if err := l.append("to@1", to.address, &raft.AppendEntriesRequest{PrevLogTerm: 7}, &resp, nil); err == nil || err.Error() != "no term 7" {
		t.Errorf("the error of the other node's Raft is %v", err)
	}
	big := &raft.AppendEntriesRequest{PrevLogEntry: 9, Entries: []*raft.Log{{Index: 10, Data: make([]byte, 9<<20)}}}
	if err := l.append("to@1", to.address, big, &resp, nil); err != nil || resp.LastLog != 9 {
		t.Errorf("a large entry: %+v, %v", resp, err)
	}
}

// Each group is admitted by itself, as with a connection of its own, also when others are open.
func TestMuxAdmitsEachGroup(t *testing.T) {
	to, from := newPeer(t, "to", nil), newPeer(t, "from", nil)
	answers(t, to.Layer)
	second, third := to.layerOf(t, 2, "2"), to.layerOf(t, 3, "1")
	answers(t, second)
	answers(t, third)
	stranger := errors.New("from is not a member")
	third.Admit(func(string) error { return stranger })
	for _, c := range []struct {
		group  int
		server string
		want   string
	}{
		{1, "to@1", ""}, {2, "to@2", ""}, {2, "to@1", "another directory"}, {2, "to@2", ""}, {3, "to@1", "not a member"}, {4, "to@1", "no replica of group 4"}, {1, "to@2", "another directory"}, {1, "to@1", ""},
	} {
		l := from.Layer
		if c.group != 1 {
			l = from.layerOf(t, c.group, "1")
		}
		for range 2 {
			err := asks(l, to, c.server, 5)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("group %d of %s: %v", c.group, c.server, err)
			}
		}
	}
	if n := to.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
	other := newPeer(t, "other", nil)
	other.hello.Cluster = "d"
	if err := asks(other.Layer, to, "to@1", 5); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("a node of another cluster: %v", err)
	}
	if h := to.Said("from@1"); h.Client != "client-from" {
		t.Errorf("what the caller says is not known: %+v", h)
	}
}

// What waits for a replica that is closed ends at once, and its group is not open any longer. Others go on.
func TestMuxOfAReplicaThatIsClosed(t *testing.T) {
	to, from := newPeer(t, "to", nil), newPeer(t, "from", nil)
	answers(t, to.Layer)
	second := to.layerOf(t, 2, "1")
	l := from.layerOf(t, 2, "1")
	if err := asks(from.Layer, to, "to@1", 1); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 2)
	for range 2 {
		go func() { waits <- asks(l, to, "to@1", 1) }()
	}
	<-second.rpcs // which is never answered
	<-second.rpcs
	_ = second.Close()
	for range 2 {
		if err := <-waits; !errors.Is(err, io.EOF) {
			t.Errorf("what has waited: %v", err)
		}
	}
	if err := asks(l, to, "to@1", 1); err == nil || !strings.Contains(err.Error(), "no replica of group 2") {
		t.Errorf("a closed replica: %v", err)
	}
	answers(t, to.layerOf(t, 2, "5")) // the node has another replica of the group
	if err := asks(l, to, "to@1", 1); err == nil || !strings.Contains(err.Error(), "another directory") {
		t.Errorf("the replica of before: %v", err)
	}
	if err := errors.Join(asks(l, to, "to@5", 2), asks(from.Layer, to, "to@1", 2)); err != nil {
		t.Error(err)
	}
}

// A replica of the caller that is another than before is announced.
func TestMuxOfACallerWithAnotherReplica(t *testing.T) {
	to, from := newPeer(t, "to", nil), newPeer(t, "from", nil)
	second := to.layerOf(t, 2, "1")
	answers(t, second)
	for _, incarnation := range []string{"1", "2"} {
		var asked []string
		second.Admit(func(server string) error { asked = append(asked, server); return nil })
		l := from.layerOf(t, 2, incarnation)
		if err := asks(l, to, "to@1", 1); err != nil || !slices.Equal(asked, []string{"from@" + incarnation}) {
			t.Errorf("incarnation %s: %v, %q is admitted", incarnation, err, asked)
		}
		_ = l.Close()
	}
}

// A node whose Raft does not answer holds a bounded number of requests. The caller's wait ends when it stops.
func TestMuxWithoutAnswers(t *testing.T) {
	to, from := newPeer(t, "to", nil), newPeer(t, "from", nil)
	stop, ended := make(chan struct{}), make(chan error, laneMost)
	ask := func(stop <-chan struct{}) error {
		return from.append("to@1", to.address, &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{}, stop)
	}
	for range laneMost {
		go func() { ended <- ask(stop) }()
	}
	testnet.Until(t, "requests that wait", func() bool { return len(to.rpcs) == laneMost })
	if err := ask(nil); !errors.Is(err, io.EOF) {
		t.Errorf("one more: %v", err)
	}
	close(stop)
	for range laneMost {
		if err := <-ended; !errors.Is(err, raft.ErrTransportShutdown) {
			t.Errorf("a wait of a node that stops: %v", err)
		}
	}
}

// The end of either port ends what waits.
func TestMuxOfAPortThatIsClosed(t *testing.T) {
	for _, own := range []bool{true, false} {
		to, from := newPeer(t, "to", nil), newPeer(t, "from", nil)
		ended := make(chan error, 1)
		go func() { ended <- asks(from.Layer, to, "to@1", 1) }()
		<-to.rpcs
		if own {
			_ = from.Port.Close()
		} else {
			_, _ = to.Layer.Close(), to.Port.Close()
		}
		if err := <-ended; !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("own %v: %v", own, err)
		}
		if err := asks(from.Layer, to, "to@1", 1); err == nil {
			t.Errorf("own %v: a request after the end", own)
		}
	}
}

// A request waits for Timeout. If the other node has sent nothing meanwhile, the mux ends.
func TestMuxTimeout(t *testing.T) {
	for _, heard := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			p := newPort(nil, "", nil)
			m := &mux{port: p, out: combined{conn: near}, calls: map[uint32]*muxCall{}, open: map[int]parties{}}
			p.loops.Go(m.read)
			p.loops.Go(func() {
				r := bufio.NewReader(far)
				for {
					f, err := readFrame(r, nil)
					if err != nil {
						return
					}
					if heard { // the answer to something else
						time.Sleep(Timeout / 2)
						_ = (&combined{conn: far}).send(frame{kind: kindAnswer, group: 1, number: f.number + 99, payload: appendAnswer(nil, &raft.AppendEntriesResponse{}, nil)}, nil)
					}
				}
			})
			began := time.Now()
			c := &muxCall{done: make(chan error, 1), timer: time.NewTimer(time.Hour)}
			err, over := m.call(c, frame{kind: kindEntries, group: 1}, nil, nil)
			if !errors.Is(err, os.ErrDeadlineExceeded) || over || time.Since(began) != Timeout {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			m.mu.Lock()
			if ended := m.err != nil; ended == heard {
				t.Errorf("ended %v, although the other end was heard: %v", ended, heard)
			}
			m.mu.Unlock()
			_, _ = near.Close(), far.Close()
			p.loops.Wait()
		})
	}
}

// slowConn is a connection whose writes wait for leave to go on.
type slowConn struct {
	net.Conn
	writes chan []byte
	leave  chan error
}

func (c *slowConn) Write(b []byte) (int, error) {
	c.writes <- slices.Clone(b)
	return len(b), <-c.leave
}

func (c *slowConn) Close() error { return nil }

// Frames that come during a write go out together, in their order, and after an error none.
func TestFramesAreCombined(t *testing.T) {
	conn := &slowConn{writes: make(chan []byte), leave: make(chan error)}
	c := &combined{conn: conn}
	send := func(number uint32) error {
		return c.send(frame{kind: kindAnswer, number: number, payload: []byte("<")}, func(b []byte) []byte { return append(b, '>') })
	}
	numbers := func(b []byte) (all []uint32) {
		for len(b) > 0 {
			if n := binary.LittleEndian.Uint32(b); n != 2 || string(b[frameHead:frameHead+2]) != "<>" {
				t.Fatalf("a frame of %d bytes: %q", n, b)
			}
			all = append(all, binary.LittleEndian.Uint32(b[8:]))
			b = b[frameHead+2:]
		}
		return all
	}
	ended := make(chan error, 1)
	go func() { ended <- send(1) }()
	if got := numbers(<-conn.writes); !slices.Equal(got, []uint32{1}) {
		t.Errorf("first %d", got)
	}
	if err := errors.Join(send(2), send(3)); err != nil {
		t.Error(err)
	}
	conn.leave <- nil
	if got := numbers(<-conn.writes); !slices.Equal(got, []uint32{2, 3}) {
		t.Errorf("then %d", got)
	}
	conn.leave <- io.ErrClosedPipe
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after an error: %v", err)
	}
	if err := send(4); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("later: %v", err)
	}
}

// A write that hangs ends with the connection.
func TestFramesThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		began := time.Now()
		if err := (&combined{conn: near}).send(frame{kind: kindAnswer}, nil); err == nil || time.Since(began) != 2*Timeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		_ = far.Close()
	})
}

// What is no frame of a mux ends the connection, and no other. A group that is not open gets no request.
func TestMuxHostile(t *testing.T) {
	head := func(length uint32, group, number uint32, k kind) string {
		b := binary.LittleEndian.AppendUint32(nil, length)
		b = binary.LittleEndian.AppendUint32(b, group)
		return string(append(binary.LittleEndian.AppendUint32(b, number), byte(k)))
	}
	p := newPeer(t, "p", nil)
	q := newPeer(t, "q", nil)
	var refused uint64
	for name, message := range map[string]string{
		"random bytes":               strings.Repeat("\xff\x00\x77", 100),
		"an answer":                  head(0, 1, 1, kindAnswer),
		"an unknown kind":            head(0, 1, 1, 99),
		"too long a hello":           head(maxAnswer+1, 1, 1, kindOpen),
		"too long a request":         head(maxEntries+1, 1, 1, kindEntries),
		"no request":                 head(3, 1, 1, kindEntries) + "abc",
		"no hello":                   head(2, 1, 1, kindOpen) + "{}",
		"the hello of another node":  head(29, 2, 1, kindOpen) + `{"From":"r@1","Cluster":"c"}` + " ",
		"a hello that is not JSON":   head(3, 1, 1, kindOpen) + "abc",
		"a request with half a name": head(requestHead+2, 1, 1, kindEntries) + strings.Repeat("\xff", requestHead+2),
	} {
		conn, _, err := q.Call(CallMux, p.address, "p@1", deadline)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := io.WriteString(conn, message); err != nil {
			t.Fatal(name, err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(deadline))
		n, err := conn.Read(make([]byte, 1))
		_ = conn.Close()
		if n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the answer has %d bytes, %v", name, n, err)
			continue
		}
		refused++
		p.refusals(t, refused)
	}
	conn, _, err := q.Call(CallMux, p.address, "p@1", deadline)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	req := appendRequest(nil, &raft.AppendEntriesRequest{})
	_, _ = io.WriteString(conn, head(uint32(len(req)), 7, 3, kindEntries)+string(req))
	if f, err := readFrame(bufio.NewReader(conn), nil); err != nil || f.kind != kindClosed || f.group != 7 || f.number != 3 {
		t.Errorf("a request of a group that is not open: %+v, %v", f, err)
	}
	if len(p.rpcs) > 0 {
		t.Error("Raft has got a request")
	}
}

// A peer that announces a long frame gets no memory for it.
func TestLongFrames(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	head := binary.LittleEndian.AppendUint32(nil, maxEntries)
	b := append(append(head, 1, 0, 0, 0, 1, 0, 0, 0, byte(kindEntries)), make([]byte, 100)...)
	_, err := readFrame(bufio.NewReader(bytes.NewReader(b)), nil)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, io.ErrUnexpectedEOF) || used > 1<<20 {
		t.Errorf("%v, %d bytes are allocated", err, used)
	}
}

// The other end of a mux may answer anything: the mux ends, and the caller gets an error.
func TestMuxHostileAnswers(t *testing.T) {
	for _, answer := range []frame{
		{kind: kindAnswer, payload: []byte("abc")}, {kind: kindHello, payload: []byte("abc")}, {kind: kindOpen}, {kind: kindEntries}, {kind: 77},
	} {
		near, far := net.Pipe()
		p := newPeer(t, "p", nil)
		m := &mux{port: p.Port, out: combined{conn: near}, calls: map[uint32]*muxCall{}, open: map[int]parties{}}
		p.loops.Go(m.read)
		p.loops.Go(func() {
			f, _ := readFrame(bufio.NewReader(far), nil)
			answer.group, answer.number = f.group, f.number
			_ = (&combined{conn: far}).send(answer, nil)
		})
		c := &muxCall{done: make(chan error, 1), timer: time.NewTimer(time.Hour)}
		if err, _ := m.call(c, frame{kind: kindEntries, group: 1}, nil, nil); err == nil {
			t.Errorf("%+v is an answer", answer)
		}
		p.refusals(t, 1)
		_ = far.Close()
	}
}
