package config

import (
	"strings"
	"sync"
	"sync/atomic"

	"limitdb/internal/glob"
)

// source is where a directive's value comes from, weakest first.
type source uint8

const (
	fromDefault source = iota
	fromFile
	fromEnvironment
	fromArguments
	fromSecretFile // from the file in requirepass-file
	fromCommand    // CONFIG SET
)

// directive is a directive: its declaration and its current value.
type directive struct {
	handle     Handle
	name       string
	group      string
	doc        string
	def        string // canonical text of the default
	mutable    bool
	secret     bool
	secretFile *directive // the directive that names a file with this secret, or nil

	current atomic.Pointer[value] // the handle holds the same
}

// value is the value of a directive at some time.
type value struct {
	text   string // canonical
	source source
}

func (d *directive) value() value { return *d.current.Load() }

// hook is a function to run after any of its directives changes.
type hook struct {
	run  func() error
	over []*directive
}

// Registry holds all directives. [New] makes it. Several goroutines may call its methods at the same time.
// Hooks run while it is locked, so a hook may only read: by handles, Get and Advice. Get never waits for a
// hook or a file.
type Registry struct {
	// Fixed once New has returned.
	list   []*directive
	byName map[string]*directive
	checks []func() error  // conditions on several directives
	advice []func() string // warnings about values that are allowed and may surprise, or ""

	mu       sync.Mutex // guards the fields below; held while directives change
	hooks    []hook
	file     string // absolute path of the configuration file, or ""
	readFile func(path string) ([]byte, error)
	remarks  remarks // from Load
}

// Pair is a directive's name and its value as text.
type Pair struct{ Name, Value string }

// redacted is shown in place of a secret that is set.
const redacted = "(redacted)"

// shown returns text as others may see it.
func (d *directive) shown(text string) string {
	if d.secret && text != "" {
		return redacted
	}
	return text
}

// Secret reports whether the directive of this name holds a secret.
func (r *Registry) Secret(name string) bool {
	d := r.find(name)
	return d != nil && d.secret
}

// Known reports whether there is a directive of this name.
func (r *Registry) Known(name string) bool { return r.find(name) != nil }

// find returns the directive with this name, ignoring case, or nil.
func (r *Registry) find(name string) *directive {
	if d := r.byName[name]; d != nil {
		return d
	}
	return r.byName[strings.ToLower(name)]
}

// Get returns the directives whose names match any of the patterns, each once, in the order of their
// declaration. Patterns are those of Redis: * ? [a-z] [^a] and \ before a character; case does not matter.
// The value of a secret that is set is "(redacted)". A pattern longer than glob.MaxPattern bytes matches
// nothing.
func (r *Registry) Get(patterns ...string) []Pair {
	var compiled []*glob.Pattern
	for _, text := range patterns {
		if p, ok := glob.Compile(strings.ToLower(text)); ok {
			compiled = append(compiled, p)
		}
	}
	var pairs []Pair
	for _, d := range r.list {
		for _, p := range compiled {
			if p.Match([]byte(d.name)) {
				pairs = append(pairs, Pair{d.name, d.shown(d.value().text)})
				break
			}
		}
	}
	return pairs
}

// File returns the absolute path of the configuration file, or "" if there is none.
func (r *Registry) File() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file
}

// Warnings returns the warnings of Load, one a line: directives of Redis that are ignored, passwords on the
// command line, values that may surprise.
func (r *Registry) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(r.remarks.all(), r.Advice()...)
}

// Advice returns the warnings about current values that are allowed and may surprise, one a line. Hooks may
// call it.
func (r *Registry) Advice() []string {
	var lines []string
	for _, a := range r.advice {
		if line := a(); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// OnChange registers run to be called after a Set that has changed at least one of the handles, once for each
// Set. Hooks run in the order of the calls of OnChange, and see the new values. If run fails, Set restores
// all values, calls the hooks that it had called again, and returns an error.
func (r *Registry) OnChange(run func() error, handles ...Handle) {
	h := hook{run: run}
	for _, handle := range handles {
		h.over = append(h.over, r.byName[handle.Name()])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks = append(r.hooks, h)
}

// values returns the values of all directives.
func (r *Registry) values() []value {
	all := make([]value, len(r.list))
	for i, d := range r.list {
		all[i] = d.value()
	}
	return all
}

// restore sets all directives to values that values returned.
func (r *Registry) restore(all []value) {
	for i, d := range r.list {
		d.set(all[i])
	}
}

// set makes v the current value. It writes the handle only if the text has changed.
func (d *directive) set(v value) {
	if v.text != d.value().text {
		d.handle.store(v.text)
	}
	d.current.Store(&v)
}

// check runs the checks on several directives.
func (r *Registry) check() error {
	for _, c := range r.checks {
		if err := c(); err != nil {
			return err
		}
	}
	return nil
}
