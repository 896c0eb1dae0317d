package peers

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A connection between nodes begins with a hello of the node that dials. The other node answers with its own,
// and closes the connection if the answer says that it refuses.
//
//	 0      4        5      6               8
//	┌──────┬────────┬──────┬───────────────┬──────┐
//	│ LDBR │ wire 1 │ call │ length of the │ JSON │
//	└──────┴────────┴──────┴───────────────┴──────┘
const (
	helloMagic = "LDBR"
	helloWire  = 1
	helloHead  = 8
	// maxHello is the longest JSON that a node accepts.
	maxHello = 4 << 10
)

// Call says what a connection is for.
type Call byte

const (
	// CallRaft carries the messages of hashicorp/raft.
	CallRaft Call = iota + 1
	// CallAsk carries nothing more: the caller only wants the answer.
	CallAsk
	// CallClients carries what Layer.Clients reads and writes.
	CallClients
	// CallGroups carries what Layer.Asks reads and writes.
	CallGroups
	// CallMux carries the entries of all groups of the caller: see mux.
	CallMux
)

// Hello is what a node says about itself.
type Hello struct {
	From    string            // the node's server id in the group: its raft-id, and the incarnation of its directory for the group
	To      string            `json:",omitempty"` // the server id or raft-id of the node that the caller means; of a call only
	Group   int               // the group that the connection is for
	Cluster string            `json:",omitempty"` // the id of the cluster, empty until the node is a member of one
	Client  string            `json:",omitempty"` // where clients reach the node
	Reads   int               // the newest format of entries that it reads
	Writes  int               // the format of entries that it writes
	Last    uint64            `json:",omitempty"` // the index of the last entry in the node's log
	Agree   map[string]string `json:",omitempty"` // the settings that must be the same on all nodes: see settings
	Refused string            `json:",omitempty"` // why the connection is closed; of an answer only
}

// incarnationSep separates the raft-id from the incarnation in a server id. A raft-id never contains it.
const incarnationSep = "@"

// ServerID returns the server id of a node: see Hello.
func ServerID(name, incarnation string) string { return name + incarnationSep + incarnation }

// NameOf returns the raft-id in a server id.
func NameOf(server string) string {
	name, _, _ := strings.Cut(server, incarnationSep)
	return name
}

// IncarnationOf returns the incarnation in a server id.
func IncarnationOf(server string) string {
	_, incarnation, _ := strings.Cut(server, incarnationSep)
	return incarnation
}

// ErrNewer is returned if a node is of a newer version than this one can work with.
var ErrNewer = errors.New("replication: a node of a newer version")

var errHello = errors.New("the peer is not a node of this version")

// send writes h, the hello of a call.
func (h *Hello) send(w io.Writer, c Call) error {
	b, err := h.text()
	if err != nil {
		return err
	}
	head := append(make([]byte, 0, helloHead+len(b)), helloMagic...)
	head = append(head, helloWire, byte(c))
	head = binary.LittleEndian.AppendUint16(head, uint16(len(b)))
	_, err = w.Write(append(head, b...))
	return err
}

// text returns the JSON of h.
func (h *Hello) text() ([]byte, error) {
	b, err := json.Marshal(h)
	if err == nil && len(b) > maxHello {
		err = fmt.Errorf("replication: a hello of %d bytes", len(b))
	}
	return b, err
}

// readHello reads exactly one hello. It returns errHello for bytes that are not a hello.
func readHello(r io.Reader) (h Hello, c Call, err error) {
	var head [helloHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return h, 0, err
	}
	length := int(binary.LittleEndian.Uint16(head[6:]))
	if string(head[:4]) != helloMagic || head[4] != helloWire || length > maxHello {
		return h, 0, errHello
	}
	b := make([]byte, length)
	if _, err := io.ReadFull(r, b); err != nil {
		return h, 0, err
	}
	if json.Unmarshal(b, &h) != nil || h.From == "" {
		return h, 0, errHello
	}
	return h, Call(head[5]), nil
}
