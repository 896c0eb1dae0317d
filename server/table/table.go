// Package table has the command table: it finds commands by their names, and describes them to clients.
package table

import (
	"cmp"
	"slices"

	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/spec"
)

// Table finds a command by its name in any case, without allocating.
type Table struct {
	ByName []*spec.Command // sorted by name: the order of COMMAND
	All    []*spec.Command // commands and subcommands, by id
	slots  [1 << tableBits]*spec.Command
}

const tableBits = 9

// Add puts a command and its subcommands into the table. Two commands with one name are a mistake in the
// program, caught by every test that starts a server.
func (t *Table) Add(c *spec.Command, subs []*spec.Command) {
	if t.Find([]byte(c.Name)) != nil {
		panic("server: two commands named " + c.Name)
	}
	t.number(c)
	at, _ := slices.BinarySearchFunc(t.ByName, c.Name, func(c *spec.Command, name string) int { return cmp.Compare(c.Name, name) })
	t.ByName = slices.Insert(t.ByName, at, c)
	i := hashName([]byte(c.Name))
	for t.slots[i] != nil {
		i = (i + 1) % uint32(len(t.slots))
	}
	t.slots[i] = c
	c.Subs = subs
	for _, sub := range subs {
		sub.Parent = c
		t.number(sub)
	}
}

func (t *Table) number(c *spec.Command) {
	c.ID, c.Full, c.Since = len(t.All), c.FullName(), cmp.Or(c.Since, "1.0.0")
	c.Settle()
	t.All = append(t.All, c)
}

// Find returns the command of that name, or nil.
func (t *Table) Find(name []byte) *spec.Command {
	i := hashName(name)
	for {
		c := t.slots[i]
		if c == nil || resp.EqualFold(name, c.Name) {
			return c
		}
		i = (i + 1) % uint32(len(t.slots))
	}
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

// Commands returns all commands and subcommands, by id.
func (t *Table) Commands() []*spec.Command { return t.All }

// Hint returns a hint for an unknown command.
func (t *Table) Hint(name []byte) string {
	if use := spec.InsteadOf(name); use != "" {
		return use
	}
	return spec.Meant(name, t.ByName, func(c *spec.Command) string { return c.Name })
}

// Totals returns the figures of every command that was called since the start, by id.
func (t *Table) Totals(of *stats.Counters) []stats.Command {
	out := make([]stats.Command, 0, len(t.All))
	for id, c := range t.All {
		if one := of.Command(id); one.Calls()+one.Rejected > 0 {
			one.Name = c.Full
			out = append(out, one)
		}
	}
	return out
}
