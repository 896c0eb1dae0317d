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

// format returns the format for an epoch of this node, where current is in force.
func (c *Cluster) format(current uint8) (uint8, error) {
	members, err := c.Members()
	if err != nil {
		return 0, err
	}
	format := uint8(Format)
	for _, m := range members {
		if !m.Self && c.wire != nil {
			format = min(format, max(current, uint8(min(max(c.said(&m).Reads, 0), 255))))
		}
	}
	return max(format, current), nil
}

// checkFormat returns ErrNewer if the end of the log is of a newer version. The cluster then has that version, and this
// node cannot be part of it.
func checkFormat(logs raft.LogStore) error {
	last, err := logs.LastIndex()
	if err != nil {
		return err
	}
	first, err := logs.FirstIndex()
	if err != nil {
		return err
	}
	for at := last; at > 0 && at >= first; at-- {
		var l raft.Log
		if err := logs.GetLog(at, &l); err != nil {
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

// inForce makes the node tell its peers which format is in force.
func (p *parts) inForce(format uint8) {
	if p.who != nil {
		p.who.inForce.Store(uint32(format))
	}
}
