package replication

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Some settings, such as the password, are set on each node but must be the same on all. Every node serves clients and
// any may lead, so nodes compare these settings and warn.

// settings are those of a node that must be the same on all.
type settings struct {
	own     func() map[string]string // Options.Agree
	cluster *Cluster
	elapsed func() int64
	log     *slog.Logger

	mu sync.Mutex
	differs
}

// differences returns the settings that differ between this node and the peers that answer.
func (s *settings) differences(all []Member) []string {
	if s.own == nil {
		return nil
	}
	own := s.own()
	var out []string
	for _, m := range all {
		theirs := s.cluster.said(&m).Agree
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

// votersSay is Node.VotersSay.
func (s *settings) votersSay(name string) []string {
	all, _ := s.cluster.Members() // none while the node stops
	var out []string
	for _, m := range all {
		if value, said := s.cluster.said(&m).Agree[name]; said && m.Voter && !m.Self {
			out = append(out, value)
		}
	}
	return out
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
func (s *settings) compare(all []Member) {
	found := s.differences(all)
	s.mu.Lock()
	say := s.find(found, s.elapsed())
	s.mu.Unlock()
	switch {
	case !say:
	case len(found) == 0:
		s.log.Info("all nodes that answer have the same settings")
	default:
		s.log.Warn("settings that must be the same on all nodes differ from this node's", "of", strings.Join(found, ", "))
	}
}

// different returns the settings that differed at the last comparison.
func (s *settings) different() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.now)
}
