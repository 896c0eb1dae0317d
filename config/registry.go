package config

import (
	"strings"
	"sync"
)

// source says where a directive's value comes from, the weaker first.
type source uint8

const (
	fromDefault source = iota
	fromFile
	fromEnvironment
	fromArguments
	fromSecretFile // what requirepass-file holds
	fromCommand    // CONFIG SET
)

// directive is one directive: what is declared and what is current.
type directive struct {
	handle     Handle
	name       string
	group      string
	doc        string
	def        string // canonical text of the default
	mutable    bool
	secret     bool
	secretFile *directive // the directive that names a file which holds this one, or nil

	// Guarded by Registry.mu.
	text   string // canonical text of the current value; the handle holds the same
	source source
}

// hook is a function to run after a change of any of its directives.
type hook struct {
	run  func() error
	over []*directive
}

// Registry holds all directives. [New] makes it. Its methods may be called by
// several goroutines at once; hooks run while it is locked, so that a hook must
// not call it, but may read handles.
type Registry struct {
	// Fixed once New has returned.
	list   []*directive
	byName map[string]*directive
	checks []func() error  // what must hold between several directives
	advice []func() string // what is allowed and may surprise, or ""

	mu       sync.Mutex // guards all below, and text and source of each directive
	hooks    []hook
	file     string // absolute path of the configuration file, or ""
	readFile func(path string) ([]byte, error)
	remarks  remarks // of Load
}

// Pair is a directive's name and its value as text.
type Pair struct{ Name, Value string }

// redacted stands for the value of a secret that is set.
const redacted = "(redacted)"

// shown is text as others may see it.
func (d *directive) shown(text string) string {
	if d.secret && text != "" {
		return redacted
	}
	return text
}

// find returns the directive called name in any case, or nil.
func (r *Registry) find(name string) *directive {
	if d := r.byName[name]; d != nil {
		return d
	}
	return r.byName[strings.ToLower(name)]
}

// Get returns the directives whose names match any of the patterns (as Redis
// matches them: * ? [a-z] [^a] and \ before a character; case does not matter),
// each once, in the order of their declaration. A secret that is set reads
// "(redacted)". A pattern of more than glob.MaxPattern bytes matches nothing.
func (r *Registry) Get(patterns ...string) []Pair {
	compiled := foldPatterns(patterns)
	r.mu.Lock()
	defer r.mu.Unlock()
	var pairs []Pair
	for _, d := range r.list {
		for _, p := range compiled {
			if p.Match([]byte(strings.ToLower(d.name))) {
				pairs = append(pairs, Pair{d.name, d.shown(d.text)})
				break
			}
		}
	}
	return pairs
}

// File returns the absolute path of the configuration file, or "" if there is
// none.
func (r *Registry) File() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file
}

// Warnings returns what Load has found that is no error, a line each: directives
// of Redis that are ignored, passwords on the command line, values that may
// surprise.
func (r *Registry) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.remarks.all()
	for _, a := range r.advice {
		if line := a(); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// OnChange has run called after Set has changed one or more of the handles,
// once for each Set, in the order of the calls of OnChange. The handles have
// their new values by then. If run fails, Set takes all of its changes back,
// calls again the hooks that had been called, and fails.
func (r *Registry) OnChange(run func() error, handles ...Handle) {
	h := hook{run: run}
	for _, handle := range handles {
		h.over = append(h.over, r.byName[handle.Name()])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks = append(r.hooks, h)
}

// value is what a directive held at some time.
type value struct {
	text   string
	source source
}

// values returns what all directives hold.
func (r *Registry) values() []value {
	all := make([]value, len(r.list))
	for i, d := range r.list {
		all[i] = value{d.text, d.source}
	}
	return all
}

// restore goes back to what values returned.
func (r *Registry) restore(all []value) {
	for i, d := range r.list {
		d.set(all[i])
	}
}

// set makes v the current value. The handle is written only on a change.
func (d *directive) set(v value) {
	if v.text != d.text {
		d.handle.store(v.text)
	}
	d.text, d.source = v.text, v.source
}

// check runs what must hold between several directives.
func (r *Registry) check() error {
	for _, c := range r.checks {
		if err := c(); err != nil {
			return err
		}
	}
	return nil
}
