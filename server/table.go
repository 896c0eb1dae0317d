package server

import (
	"cmp"
	"slices"

	"limitdb/resp"
	"limitdb/server/spec"
)

// table finds a command by its name in any case, without allocating.
type table struct {
	byName []*command // sorted by name: the order of COMMAND and of the reference
	all    []*command // commands and subcommands, by id
	slots  [1 << tableBits]*command
}

const tableBits = 9

// newTable builds the table. Two commands with one name are a mistake in the
// program, caught by every test that starts a server.
func newTable(families [][]command) *table {
	t := &table{}
	for _, family := range families {
		for i := range family {
			t.add(&family[i])
		}
	}
	slices.SortFunc(t.byName, func(a, b *command) int { return cmp.Compare(a.Name, b.Name) })
	return t
}

func (t *table) add(c *command) {
	if t.find([]byte(c.Name)) != nil {
		panic("server: two commands named " + c.Name)
	}
	t.number(c)
	t.byName = append(t.byName, c)
	i := hashName([]byte(c.Name))
	for t.slots[i] != nil {
		i = (i + 1) % uint32(len(t.slots))
	}
	t.slots[i] = c
	for j := range c.subs {
		sub := &c.subs[j]
		sub.Parent = &c.Command
		c.Subs = append(c.Subs, &sub.Command)
		t.number(sub)
	}
}

func (t *table) number(c *command) {
	c.ID, c.Full, c.Since = len(t.all), c.FullName(), cmp.Or(c.Since, "1.0.0")
	t.all = append(t.all, c)
}

// find returns the command of that name, or nil.
func (t *table) find(name []byte) *command {
	i := hashName(name)
	for {
		c := t.slots[i]
		if c == nil || resp.EqualFold(name, c.Name) {
			return c
		}
		i = (i + 1) % uint32(len(t.slots))
	}
}

// sub returns c's subcommand of that name, or nil.
func (c *command) sub(name []byte) *command {
	for i := range c.subs {
		if resp.EqualFold(name, c.subs[i].Name) {
			return &c.subs[i]
		}
	}
	return nil
}

// hashName returns FNV-1a of the name with the case bit cleared, folded to the table's size.
// The names in the table are fixed and public, so the hash needs no seed.
func hashName(name []byte) uint32 {
	h := uint32(2166136261)
	for _, b := range name {
		h = (h ^ uint32(b&^0x20)) * 16777619
	}
	return (h ^ h>>tableBits ^ h>>(2*tableBits)) % (1 << tableBits)
}

// hint returns a hint for an unknown command.
func (t *table) hint(name []byte) string {
	if use := spec.InsteadOf(name); use != "" {
		return use
	}
	return spec.Meant(name, func(yield func(string) bool) {
		for _, c := range t.byName {
			if !yield(c.Name) {
				return
			}
		}
	})
}
