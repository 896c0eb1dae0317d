package rulebook

import (
	"sync"
	"sync/atomic"

	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/rules"
)

// The figures of the limits in trees of descriptors, by the names that Envoy's rate limit service has for them. A name may have what clients have sent, so
// there are at most mostCounts names, of mostName bytes; what has no place is not counted.
const (
	mostCounts = 1000
	mostName   = 1 << 10
)

// envoyCounts are the figures of all limits. The zero value is ready.
type envoyCounts struct {
	mu     sync.RWMutex // guards byName
	byName map[string]*envoyCount
}

type envoyCount struct{ total, within, near, over, shadow atomic.Uint64 }

// of returns the figures of a name, nil if there is no place for it.
func (e *envoyCounts) of(name []byte) *envoyCount {
	e.mu.RLock()
	c := e.byName[string(name)]
	e.mu.RUnlock()
	if c != nil || len(name) > mostName {
		return c
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c = e.byName[string(name)]; c != nil || len(e.byName) >= mostCounts {
		return c
	}
	if e.byName == nil {
		e.byName = map[string]*envoyCount{}
	}
	c = new(envoyCount)
	e.byName[string(name)] = c
	return c
}

// nearPercent is the share of a limit above which a hit is near it, in percent.
const nearPercent = 80

// add counts a decision on a match. left is what was left before, of a limit that counts what it denies: the hits that fit are not over it, though they are
// denied as well. That service counts them as near the limit if they are, and otherwise as nothing.
func (c *envoyCount) add(m *rules.Match, d *limit.Decision, s *rules.Status, left int64) {
	hits := uint64(m.Cost)
	c.total.Add(hits)
	near := d.Limit/100*nearPercent + d.Limit%100*nearPercent/100
	if s.Over {
		over := hits - min(hits, uint64(left))
		c.over.Add(over)
		if m.Shadow {
			c.shadow.Add(over)
		}
		if over < hits {
			c.near.Add(uint64(min(left, d.Limit-near)))
		}
		return
	}
	c.within.Add(hits)
	if above := d.Limit - d.Remaining - near; above > 0 {
		c.near.Add(min(hits, uint64(above)))
	}
}

// EnvoyLimits returns the figures of the limits in trees by their names, which have dots between the domain and the descriptors' keys. They are counted while
// envoy-metrics is on.
func (b *Book) EnvoyLimits() map[string]stats.EnvoyLimit {
	b.envoy.mu.RLock()
	defer b.envoy.mu.RUnlock()
	all := make(map[string]stats.EnvoyLimit, len(b.envoy.byName))
	for name, c := range b.envoy.byName {
		all[name] = stats.EnvoyLimit{
			Total: c.total.Load(), Within: c.within.Load(), Near: c.near.Load(), Over: c.over.Load(), Shadow: c.shadow.Load(),
		}
	}
	return all
}
