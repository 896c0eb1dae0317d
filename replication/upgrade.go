package replication

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// Nodes of two versions work together while they are replaced one by one. Each epoch has one format, which its Epoch
// names: the newest that all members read. A member that does not answer reads at least the format in force. So a new
// format begins with the first epoch that begins after all members have the new version. From then on, nodes of the old
// version are refused.

// inForce returns the format of the current epoch; 1 before the first.
func (f *fence) inForce() uint8 { return max(f.format, 1) }

// chooseFormat returns the format for an epoch of this node.
func (n *Node) chooseFormat() (uint8, error) {
	members, err := n.Members()
	if err != nil {
		return 0, err
	}
	n.mu.Lock()
	current := n.machine.inForce()
	n.mu.Unlock()
	format := uint8(Format)
	for _, m := range members {
		if m.Self {
			continue
		}
		format = min(format, max(current, n.reads(raft.ServerID(m.server))))
	}
	return max(format, current), nil
}

// reads returns the newest format that a member reads, or 0 if the member does not answer.
func (n *Node) reads(server raft.ServerID) uint8 {
	if n.parts.wire == nil {
		return Format
	}
	return uint8(min(max(n.parts.wire.l.peer(server).Reads, 0), 255))
}

// checkFormat returns ErrNewer if the end of the log is of a newer version. The cluster then has that version, and this
// node cannot be part of it.
func (n *Node) checkFormat() error {
	last, err := n.parts.logs.LastIndex()
	if err != nil {
		return err
	}
	first, err := n.parts.logs.FirstIndex()
	if err != nil {
		return err
	}
	for at := last; at > 0 && at >= first; at-- {
		var l raft.Log
		if err := n.parts.logs.GetLog(at, &l); err != nil {
			return err
		}
		if l.Type == raft.LogCommand {
			if len(l.Data) > 0 && l.Data[0] > Format {
				return fmt.Errorf("%w: entry %d of the log has format %d", ErrNewer, at, l.Data[0])
			}
			return nil
		}
	}
	return nil
}

// tellFormat makes the node tell its peers which format is in force. The lock is held.
func (n *Node) tellFormat() {
	if n.parts.who != nil {
		n.parts.who.inForce.Store(uint32(n.machine.inForce()))
	}
}
