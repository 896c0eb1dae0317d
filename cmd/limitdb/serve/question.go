package serve

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"limitdb/groups"
	"limitdb/replication/peers"
)

// The nodes of a cluster of several groups ask one another about groups, on a connection for which the hellos name group 0. A question and its
// answer are each a length of 4 bytes, little-endian, and JSON.

// question is what a node asks. Exactly one of its pointers is set.
type question struct {
	State   *struct{}    `json:",omitempty"` // what the node is, and which groups it has
	Prepare *aboutGroup  `json:",omitempty"` // make a directory for a group, if there is none
	Place   *aboutGroup  `json:",omitempty"` // the version of a group's place; of the node that leads group 0
	Arrived *aboutPlace  `json:",omitempty"` // a group has come to its place; of the node that leads group 0
	Node    *groups.Node `json:",omitempty"` // the asking node has changed; of the node that leads group 0
	Member  *aboutServer `json:",omitempty"` // whether a server is a member of a group; of the node that leads it
	// Transfer is to make a node lead a group; of the node that leads it.
	Transfer *aboutNode `json:",omitempty"`
}

type aboutGroup struct{ Group int }

type aboutPlace struct {
	Group   int
	Version uint64
}

type aboutNode struct {
	Group int
	Node  string
}

type aboutServer struct {
	Group       int
	Incarnation string // of the asking node
}

// answer is what it is told. Error is set, or what belongs to the question.
type answer struct {
	Error       string      `json:",omitempty"`
	State       *nodeState  `json:",omitempty"`
	Incarnation string      `json:",omitempty"` // of Prepare
	Version     uint64      `json:",omitempty"` // of Place
	Member      *membership `json:",omitempty"`
}

// membership says whether a server is a member.
type membership struct {
	Decides bool // the node leads, and has committed something since the question came
	Member  bool
	Index   uint64 // of the configuration
}

// nodeState is what a node is.
type nodeState struct {
	Hello  peers.Hello // of group 0
	Groups []groupState
	Zone   string
	Weight int
	Turn   int // the group that may change its leader, as the node that leads group 0 says; 0 for none
}

// groupState is what a node says about a group of which it has a replica.
type groupState struct {
	Group       int
	Incarnation string
	Writes      int    // the format of entries that it writes
	Last        uint64 // the last entry of its log
	Leads       bool   // it decides
	Term        uint64
	Keys, Bytes int64    // that the group has here
	Decisions   uint64   // of this node, since it started
	Rate        uint64   // of these, a second
	Budget      int64    // how many bytes the group may have here, 0 for any
	Voters      []string `json:",omitempty"` // the nodes that vote, as the node that decides says
	Ready       []string `json:",omitempty"` // those of them that may be made to lead
}

const (
	// maxQuestion and maxAnswer bound what is read.
	maxQuestion = 4 << 10
	maxAnswer   = 256 << 10
	// askTime bounds a question that is only looked up; workTime one that has the other node do something.
	askTime  = 500 * time.Millisecond
	workTime = 10 * time.Second
)

// errQuestion is returned for bytes that are no question, or no answer.
var errQuestion = errors.New("what the other node says about groups cannot be read")

// writeMessage writes a value behind its length.
func writeMessage(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readMessage reads a value of at most so many bytes.
func readMessage(r io.Reader, most int, value any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	length := binary.LittleEndian.Uint32(head[:])
	if uint64(length) > uint64(most) {
		return fmt.Errorf("%w: %d bytes", errQuestion, length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, value); err != nil {
		return errQuestion
	}
	return nil
}

// answerQuestions answers the questions of another node until it ends the connection, and closes it.
func answerQuestions(c net.Conn, from string, answers func(q *question, from string) (answer, error)) {
	defer c.Close()
	for {
		var q question
		if readMessage(c, maxQuestion, &q) != nil {
			return
		}
		a, err := answers(&q, from)
		if err != nil {
			a = answer{Error: err.Error()}
		}
		if c.SetWriteDeadline(time.Now().Add(workTime)) != nil || writeMessage(c, &a) != nil {
			return
		}
	}
}

// errAnswer is what another node answers in place of what it was asked for.
type errAnswer string

func (e errAnswer) Error() string { return string(e) }

// line is a connection on which one question at a time is asked. It is dialed when there is none.
type line struct {
	dial func() (net.Conn, error)
	mu   sync.Mutex // guards conn, and is held while a question is asked
	conn net.Conn
}

// ask asks a question. An error that is no errAnswer ends the connection.
func (l *line) ask(q *question, most time.Duration) (answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.conn == nil
	a, err := l.try(q, most)
	if err != nil && !fresh { // the other node may have started again since the last question
		a, err = l.try(q, most)
	}
	if err == nil && a.Error != "" {
		err = errAnswer(a.Error)
	}
	return a, err
}

// try asks once. The lock is held.
func (l *line) try(q *question, most time.Duration) (a answer, err error) {
	if l.conn == nil {
		if l.conn, err = l.dial(); err != nil {
			l.conn = nil
			return a, err
		}
	}
	err = l.conn.SetDeadline(time.Now().Add(most))
	if err == nil {
		err = writeMessage(l.conn, q)
	}
	if err == nil {
		err = readMessage(l.conn, maxAnswer, &a)
	}
	if err != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
	return a, err
}

// close ends the connection.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}
