package config

import (
	"fmt"
	"math"
	"time"
)

// maxSeconds is the longest time in seconds that Redis accepts for timeout.
const maxSeconds = math.MaxInt32

// Whether CONFIG SET may change a directive.
const (
	fixed   = false
	mutable = true
)

// group declares directives under a heading.
type group struct {
	r     *Registry
	title string
}

// add adds a directive to the registry. A default that is not allowed is a mistake in the table, and stops
// the program at its start.
func (g group) add(h Handle, name, def string, mutable bool, doc string) {
	h.setName(name)
	text, err := h.parse([]string{def})
	if err != nil {
		panic(fmt.Sprintf("config: default of %s: %v", name, err))
	}
	if g.r.byName[name] != nil {
		panic("config: " + name + " is declared twice")
	}
	h.store(text)
	d := &directive{handle: h, name: name, group: g.title, doc: doc, def: text, mutable: mutable}
	d.current.Store(&value{text: text})
	g.r.list = append(g.r.list, d)
	g.r.byName[name] = d
}

func (g group) int(name, def string, low, high int64, mutable bool, doc string) *Int {
	h := &Int{number{min: low, max: high}}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) octal(name, def string, low, high int64, mutable bool, doc string) *Int {
	h := &Int{number{min: low, max: high, octal: true}}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) seconds(name, def string, low, high int64, mutable bool, doc string) *Duration {
	h := &Duration{number: number{min: low, max: high}, unit: time.Second}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) milliseconds(name, def string, low, high int64, mutable bool, doc string) *Duration {
	h := &Duration{number: number{min: low, max: high}, unit: time.Millisecond}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) bytes(name, def string, low, high int64, mutable bool, doc string) *Bytes {
	h := &Bytes{number{min: low, max: high}}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) share(name, def string, low, high int64, mutable bool, doc string) *Share {
	h := &Share{number{min: low, max: high}}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) outputLimit(name, def string, low, high int64, mutable bool, doc string) *OutputLimit {
	h := &OutputLimit{min: low, max: high}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) bool(name, def string, mutable bool, doc string) *Bool {
	h := &Bool{}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) text(name, def string, mutable bool, doc string) *Text {
	h := &Text{}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) words(name, def string, mutable bool, doc string) *Words {
	h := &Words{}
	g.add(h, name, def, mutable, doc)
	return h
}

func (g group) enum(name, def string, values []string, mutable bool, doc string) *Enum {
	h := &Enum{values: values}
	g.add(h, name, def, mutable, doc)
	return h
}

// keep makes a directive secret, and file the directive that names a file with the secret.
func (g group) keep(secret, file *Text) {
	secret.bytes = true
	d := g.r.byName[secret.Name()]
	d.secret = true
	d.secretFile = g.r.byName[file.Name()]
}
