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

// add adds a directive to the registry, and returns its handle. A default that is not allowed is a mistake in the
// table, and stops the program at its start.
func add[H Handle](g group, h H, name, def string, mutable bool, doc string) H {
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
	return h
}

func (g group) int(name, def string, low, high int64, mutable bool, doc string) *Int {
	return add(g, &Int{number{min: low, max: high}}, name, def, mutable, doc)
}

func (g group) octal(name, def string, low, high int64, mutable bool, doc string) *Int {
	return add(g, &Int{number{min: low, max: high, octal: true}}, name, def, mutable, doc)
}

func (g group) seconds(name, def string, low, high int64, doc string) *Duration {
	return add(g, &Duration{number{min: low, max: high}, time.Second}, name, def, mutable, doc)
}

// maxMilliseconds is the longest time of a directive in milliseconds.
const maxMilliseconds = 60_000

func (g group) milliseconds(name, def string, low int64, mutable bool, doc string) *Duration {
	return add(g, &Duration{number{min: low, max: maxMilliseconds}, time.Millisecond}, name, def, mutable, doc)
}

func (g group) bytes(name, def string, low, high int64, mutable bool, doc string) *Bytes {
	return add(g, &Bytes{number{min: low, max: high}}, name, def, mutable, doc)
}

func (g group) bool(name, def string, mutable bool, doc string) *Bool {
	return add(g, &Bool{}, name, def, mutable, doc)
}

func (g group) text(name, def string, mutable bool, doc string) *Text {
	return add(g, &Text{}, name, def, mutable, doc)
}

func (g group) words(name, def string, mutable bool, doc string) *Words {
	return add(g, &Words{}, name, def, mutable, doc)
}

func (g group) enum(name, def string, values []string, mutable bool, doc string) *Enum {
	return add(g, &Enum{values: values}, name, def, mutable, doc)
}

// keep makes a directive secret, and file the directive that names a file with the secret.
func (g group) keep(secret, file *Text) {
	secret.bytes = true
	d := g.r.byName[secret.Name()]
	d.secret = true
	d.secretFile = g.r.byName[file.Name()]
}
