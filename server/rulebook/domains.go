package rulebook

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync/atomic"

	"limitdb/rules"
)

// trees are the domains that come from files of Envoy's rate limit service.
type trees struct {
	domains atomic.Pointer[rules.Domains]                  // nil until the first are loaded
	problem atomic.Pointer[string]                         // why the last change failed; nil: it did not
	figures atomic.Pointer[map[*rules.Domain]*treeFigures] // nil until the first rules are loaded
}

// Domain returns the namespace of that name that has a tree of descriptors, or nil. One of the other rules comes before one of
// the files of Envoy's rate limit service.
func (b *Book) Domain(name string) *rules.Domain {
	if d := b.force.Load().set.Domain(name); d != nil {
		return d
	}
	if ds := b.trees.domains.Load(); ds != nil {
		return ds.Domain(name)
	}
	return nil
}

// Domains returns the namespaces that Domain finds.
func (b *Book) Domains() (all []*rules.Domain) {
	set := b.Set()
	all = slices.Clone(set.Domains())
	if ds := b.trees.domains.Load(); ds != nil {
		for _, d := range ds.All() {
			if set.Domain(d.Name()) == nil {
				all = append(all, d)
			}
		}
	}
	return all
}

// DomainsSum returns a checksum of what these files mean.
func (b *Book) DomainsSum() (sum [sha256.Size]byte) {
	if ds := b.trees.domains.Load(); ds != nil {
		sum = ds.Sum()
	}
	return sum
}

// ReloadDomains reads the files of Envoy's rate limit service again. If one has a mistake, the old ones stay in force.
func (b *Book) ReloadDomains() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.reloadDomains()
	return err
}

// reloadDomains is ReloadDomains with the lock held.
func (b *Book) reloadDomains() (changes rules.Changes, err error) {
	files, err := b.Source.ReadDomains()
	if err != nil {
		b.remember(&b.trees.problem, err)
		return changes, fmt.Errorf("reading envoy-rules-dir: %w", err)
	}
	ds, err := rules.ParseDomains(files, &b.Parts.Zones)
	if err != nil {
		b.remember(&b.trees.problem, err)
		return changes, err
	}
	changes = ds.Changed(b.trees.domains.Load())
	b.countTrees(b.Set(), ds)
	b.trees.domains.Store(ds)
	b.trees.problem.Store(nil)
	b.changes.Add(1)
	b.Log.Info("the files of envoy-rules-dir are loaded", "files", len(files), "added", named(changes.Added), "changed", named(changes.Changed),
		"removed", named(changes.Removed), "same", changes.Same)
	b.warn(ds.Notes())
	return changes, nil
}

// warn writes notes on rules to the log.
func (b *Book) warn(notes []string) {
	for i, note := range notes {
		if i == maxNamed {
			b.Log.Warn("there are more notes on the rules", "more", len(notes)-maxNamed)
			return
		}
		b.Log.Warn("note on the rules", "note", note)
	}
}
