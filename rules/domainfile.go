package rules

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"limitdb/limit"
)

// The bounds of a directory of files, besides MaxText of each and the number of descriptors.
const (
	// MaxFiles is the most files.
	MaxFiles = 1000
	// MaxTexts is the most bytes of all files.
	MaxTexts = 4 * MaxText
)

// File is a file of Envoy's rate limit service: a domain with a tree of descriptors.
type File struct {
	Name string
	Text []byte
}

// Domains are the domains of some files. They never change.
type Domains struct {
	all    []*Domain
	byName map[string]*Domain
	notes  []string
	sum    [sha256.Size]byte
}

// Sum returns a checksum of what the files mean, whatever their names are.
func (ds *Domains) Sum() [sha256.Size]byte { return ds.sum }

// Domain returns the domain of that name, or nil.
func (ds *Domains) Domain(name string) *Domain { return ds.byName[name] }

// All returns the domains in the order of the files. The caller must not change them.
func (ds *Domains) All() []*Domain { return ds.all }

// Notes returns what is no mistake in the files, but may not be what is meant. Each begins with the name of its file.
func (ds *Domains) Notes() []string { return ds.notes }

// ParseEnvoy parses one file as a set without other rules. The error is an Errors.
func ParseEnvoy(text []byte) (*Set, error) {
	nodes := 0
	d, notes, err := parseDomain(text, &nodes, nil)
	if err != nil {
		return nil, err
	}
	return &Set{byName: map[string]*Namespace{}, domains: []*Domain{d}, domainOf: map[string]*Domain{d.name: d}, notes: notes, text: text, sum: d.sum}, nil
}

// ParseDomains parses files. Each has another domain. zones caches time zones; it may be nil. The error begins with the
// name of a file; it wraps an Errors if the mistake is in that file alone.
func ParseDomains(files []File, zones *limit.Zones) (*Domains, error) {
	size := 0
	for _, f := range files {
		size += len(f.Text)
	}
	if len(files) > MaxFiles || size > MaxTexts {
		return nil, fmt.Errorf("there are %d files with %d bytes: at most %d files with %d bytes are read", len(files), size, MaxFiles, MaxTexts)
	}
	ds, of, nodes := &Domains{byName: map[string]*Domain{}}, map[string]string{}, 0
	for _, f := range files {
		d, notes, err := parseDomain(f.Text, &nodes, zones)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if other, ok := of[d.name]; ok {
			return nil, fmt.Errorf("%s: the domain %s is in %s already: put both trees into one file", f.Name, quote(d.name), other)
		}
		of[d.name], ds.byName[d.name], ds.all = f.Name, d, append(ds.all, d)
		for _, note := range notes {
			ds.notes = append(ds.notes, f.Name+": "+note)
		}
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(ds.byName)) {
		fmt.Fprintf(h, "%q\n", name)
		h.Write(ds.byName[name].sum[:])
	}
	ds.sum = [sha256.Size]byte(h.Sum(nil))
	return ds, nil
}

// parseDomain parses a file. nodes counts the descriptors of all files.
func parseDomain(text []byte, nodes *int, zones *limit.Zones) (domain *Domain, notes []string, err error) {
	root, err := parseTree(text)
	if err != nil {
		return nil, nil, err
	}
	d := &decoder{}
	c := compiler{decoder: d, zones: zones, nodes: *nodes}
	err = d.guard(func() {
		if root == nil {
			d.fail(nil, "the file is empty: it needs at least a domain")
			return
		}
		var doc domainDoc
		r := &treeReader{decoder: d}
		object(d, d.resolve(root), "the file", lenient(r.domainFileRows(), "the file"), &doc)
		if doc.domain.text == "" && len(d.errs) == 0 {
			d.fail(nodeOf(root, "domain"), "the domain is empty")
		}
		domain = c.domain(doc.domain.text, &doc)
	})
	*nodes = c.nodes
	return domain, d.noted(), err
}

// Changed returns how these domains differ from earlier ones, which may be nil.
func (ds *Domains) Changed(before *Domains) (c Changes) {
	if before == nil {
		before = &Domains{}
	}
	c.domains(before.all, ds.all)
	return c
}
