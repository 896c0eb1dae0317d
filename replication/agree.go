package replication

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// Some settings, such as the password, are set on each node but must be the same on all. Every node serves clients and
// any may lead, so nodes compare these settings and warn.

// differences returns the settings that differ between this node and the peers that answer.
func (n *Node) differences(all []Member) []string {
	if n.o.Agree == nil {
		return nil
	}
	own := n.o.Agree()
	var out []string
	for _, m := range all {
		theirs := n.peerOf(&m).Agree
		if m.Self || theirs == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(own)) {
			if value, said := theirs[name]; said && value != own[name] {
				out = append(out, fmt.Sprintf("%s of %s", name, m.ID))
			}
		}
	}
	return out
}

// VotersSay returns what the other voters that answer say of one of the settings of Options.Agree.
func (n *Node) VotersSay(name string) []string {
	all, _ := n.Members() // none while the node stops
	var out []string
	for _, m := range all {
		if value, said := n.peerOf(&m).Agree[name]; said && m.Voter && !m.Self {
			out = append(out, value)
		}
	}
	return out
}

// peerOf returns what a member says of itself, the zero hello if it did not answer.
func (n *Node) peerOf(m *Member) hello {
	if n.parts.wire == nil {
		return hello{}
	}
	return n.parts.wire.l.peer(raft.ServerID(m.server))
}

// differs holds the differences that were found.
type differs struct {
	now  []string
	said []string // in the log
	at   int64    // when, elapsed ns
}

// saysEvery is the least time between two lines of the log about differences, since a node may come and go.
const saysEvery = time.Minute

// find notes the differences, and reports whether they are to be logged.
func (d *differs) find(found []string, now int64) bool {
	d.now = found
	if slices.Equal(d.said, found) || d.at != 0 && now-d.at < int64(saysEvery) {
		return false
	}
	d.said, d.at = found, max(now, 1)
	return true
}

// compare notes the differences, and warns when they change.
func (n *Node) compare(all []Member) {
	found := n.differences(all)
	n.mu.Lock()
	say := n.differ.find(found, n.clock.Elapsed())
	n.mu.Unlock()
	switch {
	case !say:
	case len(found) == 0:
		n.log.Info("all nodes that answer have the same settings")
	default:
		n.log.Warn("settings that must be the same on all nodes differ from this node's", "of", strings.Join(found, ", "))
	}
}
