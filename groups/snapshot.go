package groups

import "encoding/binary"

// AppendSnapshot appends the bytes of a whole directory: see record.go for them.
func AppendSnapshot(b []byte, d Directory) []byte {
	return seal(b, kindSnapshot, func(b []byte) []byte {
		b = append(binary.LittleEndian.AppendUint64(b, d.Revision), byte(d.Replicas))
		b = binary.LittleEndian.AppendUint16(b, uint16(len(d.Nodes)))
		for i := range d.Nodes {
			b = appendNode(b, &d.Nodes[i])
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(len(d.Places)))
		for _, p := range d.Places {
			b = appendText(appendIDs(binary.LittleEndian.AppendUint64(b, p.Version), p.Nodes), p.Leader)
			b = appendIDs(appendIDs(b, p.Joining), p.Leaving)
		}
		return b
	})
}

// ReadSnapshot returns the directory that bytes are. It returns ErrFormat or ErrNewer if they are none, and ErrInvalid if
// they are one that Apply cannot make.
func ReadSnapshot(b []byte) (Directory, error) {
	in, k, err := unseal(b)
	if err != nil {
		return Directory{}, err
	}
	if k != kindSnapshot {
		return Directory{}, ErrFormat
	}
	d := Directory{Revision: in.uint64(), Replicas: int(in.byte())}
	for range in.length(MaxNodes) {
		if d.Nodes = append(d.Nodes, in.node()); in.failed {
			return Directory{}, ErrFormat
		}
	}
	for range in.length(1 + Most) {
		p := Place{Version: in.uint64(), Nodes: in.ids(MaxReplicas), Leader: in.text(MaxName)}
		p.Joining, p.Leaving = in.ids(MaxReplicas), in.ids(MaxNodes)
		if d.Places = append(d.Places, p); in.failed {
			return Directory{}, ErrFormat
		}
	}
	if !in.done() {
		return Directory{}, ErrFormat
	}
	return d, d.Check()
}
