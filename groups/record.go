package groups

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A Record is a change of the directory, as the log of group 0 has it: a Begin, SetReplicas, SetNode, Drain,
// RemoveNode, SetPlace or Complete.
type Record interface {
	kind() kind
	check() error // whether its values are within bounds
	append(b []byte) []byte
	apply(d *Directory) error // whose values have been checked
}

// The bytes of a record, or of a snapshot. Numbers are little-endian. A text is its length in two bytes and its bytes;
// a list is its length in two bytes and its members, one after the other.
//
//	0        1      2      n-4      n
//	┌────────┬──────┬──────┬────────┐
//	│ format │ kind │ body │ CRC32C │   CRC32C of all bytes before it
//	└────────┴──────┴──────┴────────┘
//
//	kind          body
//	0 snapshot    revision 8, replicas 1, list of nodes, list of places
//	1 Begin       groups 1, replicas 1, node
//	2 SetReplicas replicas 1
//	3 SetNode     node
//	4 Drain       id text, on 1
//	5 RemoveNode  id text, revision 8
//	6 SetPlace    group 1, version 8, list of ids, leader text
//	7 Complete    group 1, version 8
//
//	node          id text, client text, raft text, zone text, weight 2, draining 1
//	place         version 8, list of ids, leader text, list of joining ids, list of leaving ids
const format = 1

// kind says what the bytes are. The numbers never change.
type kind byte

const (
	kindSnapshot kind = iota
	kindBegin
	kindSetReplicas
	kindSetNode
	kindDrain
	kindRemoveNode
	kindSetPlace
	kindComplete
)

// MaxRecord is the largest size of a record, in bytes.
const MaxRecord = 2048

// Errors of bytes that are no record or snapshot. A node that meets them in its log must stop: it cannot know what the
// others have made of them.
var (
	// ErrFormat is returned for bytes that are not what Append or AppendSnapshot writes.
	ErrFormat = errors.New("groups: the bytes of the directory are damaged")
	// ErrNewer is returned for a record or a snapshot of a newer version.
	ErrNewer = errors.New("groups: a newer version has written this")
)

// Append appends the bytes of a record. It returns ErrInvalid if a value is out of bounds.
func Append(b []byte, r Record) ([]byte, error) {
	if err := r.check(); err != nil {
		return b, err
	}
	return seal(b, r.kind(), r.append), nil
}

// Read returns the record that bytes are. It returns ErrFormat or ErrNewer if they are none. Whether the values of the
// record are possible is for Apply to say.
func Read(b []byte) (Record, error) {
	if len(b) > MaxRecord {
		return nil, ErrFormat
	}
	in, k, err := unseal(b)
	if err != nil {
		return nil, err
	}
	var r Record
	switch k {
	case kindBegin:
		r = Begin{Groups: int(in.byte()), Replicas: int(in.byte()), Node: in.node()}
	case kindSetReplicas:
		r = SetReplicas{int(in.byte())}
	case kindSetNode:
		r = SetNode{in.node()}
	case kindDrain:
		r = Drain{in.text(MaxName), in.bool()}
	case kindRemoveNode:
		r = RemoveNode{in.text(MaxName), in.uint64()}
	case kindSetPlace:
		r = SetPlace{int(in.byte()), in.uint64(), in.ids(MaxReplicas), in.text(MaxName)}
	case kindComplete:
		r = Complete{int(in.byte()), in.uint64()}
	case kindSnapshot:
		return nil, ErrFormat
	default:
		return nil, fmt.Errorf("%w: a record of kind %d", ErrNewer, k)
	}
	if !in.done() {
		return nil, ErrFormat
	}
	return r, nil
}

func (Begin) kind() kind       { return kindBegin }
func (SetReplicas) kind() kind { return kindSetReplicas }
func (SetNode) kind() kind     { return kindSetNode }
func (Drain) kind() kind       { return kindDrain }
func (RemoveNode) kind() kind  { return kindRemoveNode }
func (SetPlace) kind() kind    { return kindSetPlace }
func (Complete) kind() kind    { return kindComplete }

func (r Begin) append(b []byte) []byte {
	return appendNode(append(b, byte(r.Groups), byte(r.Replicas)), &r.Node)
}

func (r SetReplicas) append(b []byte) []byte { return append(b, byte(r.Replicas)) }
func (r SetNode) append(b []byte) []byte     { return appendNode(b, &r.Node) }
func (r Drain) append(b []byte) []byte       { return appendBool(appendText(b, r.ID), r.On) }

func (r RemoveNode) append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(appendText(b, r.ID), r.Revision)
}

func (r SetPlace) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, byte(r.Group)), r.Version)
	return appendText(appendIDs(b, r.Nodes), r.Leader)
}

func (r Complete) append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(append(b, byte(r.Group)), r.Version)
}

// seal appends a record or a snapshot whose body a function appends.
func seal(b []byte, k kind, body func([]byte) []byte) []byte {
	from := len(b)
	b = body(append(b, format, byte(k)))
	return binary.LittleEndian.AppendUint32(b, sum(b[from:]))
}

// unseal returns the body and the kind of a record or a snapshot.
func unseal(b []byte) (*reader, kind, error) {
	if len(b) < 6 || sum(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, 0, ErrFormat
	}
	if b[0] > format {
		return nil, 0, fmt.Errorf("%w: format %d", ErrNewer, b[0])
	}
	if b[0] != format {
		return nil, 0, ErrFormat
	}
	return &reader{rest: b[2 : len(b)-4]}, kind(b[1]), nil
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendBool(b []byte, on bool) []byte {
	if on {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendIDs(b []byte, ids []string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(ids)))
	for _, id := range ids {
		b = appendText(b, id)
	}
	return b
}

func appendNode(b []byte, n *Node) []byte {
	b = appendText(appendText(appendText(appendText(b, n.ID), n.Client), n.Raft), n.Zone)
	return appendBool(binary.LittleEndian.AppendUint16(b, uint16(n.Weight)), n.Draining)
}

// A reader reads the values of a body one after the other. After the first that is not there, or is too long, it has
// failed, and all further ones are zero.
type reader struct {
	rest   []byte
	failed bool
}

// done reports whether all has been read, and nothing failed.
func (r *reader) done() bool { return !r.failed && len(r.rest) == 0 }

// take returns the next n bytes, or nil.
func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.rest) {
		r.failed = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bool() bool {
	b := r.byte()
	r.failed = r.failed || b > 1
	return b == 1
}

func (r *reader) uint16() int {
	if b := r.take(2); b != nil {
		return int(binary.LittleEndian.Uint16(b))
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// length returns the length of a text or a list, of at most so much.
func (r *reader) length(most int) int {
	n := r.uint16()
	if n > most {
		r.failed = true
		return 0
	}
	return n
}

func (r *reader) text(most int) string { return string(r.take(r.length(most))) }

func (r *reader) ids(most int) (ids []string) {
	for range r.length(most) {
		if ids = append(ids, r.text(MaxName)); r.failed {
			return nil
		}
	}
	return ids
}

func (r *reader) node() Node {
	return Node{
		ID: r.text(MaxName), Client: r.text(MaxAddress), Raft: r.text(MaxAddress), Zone: r.text(MaxName),
		Weight: r.uint16(), Draining: r.bool(),
	}
}
