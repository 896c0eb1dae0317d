// Package users says what a user may do: it reads the rules of ACL SETUSER, writes them, and checks a command against them. It knows no
// session, no network and no file.
package users

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"

	"limitdb/rules"
	"limitdb/server/spec"
)

// Default is the name of the user that a client is before it gives another name.
const Default = "default"

// Rights are what a user may do. They never change: With returns others.
type Rights struct {
	Name   string
	Serial uint64 // tells apart the users that have had this name, one after another

	on        bool
	open      bool // any password is right
	passwords []Hash
	commands  commandSet
	keys      []keyPattern
	channels  []channelPattern

	all         spec.Access // what the user may do with every key
	allChannels bool
	// free reports that every command which a pipeline decides ahead may run on every key. Then nothing else is asked.
	free bool
	// plain reports that the user may run every command on keys that does no harm to others, as the scripts of limiters call.
	plain bool
}

// Hash is the SHA-256 of a password.
type Hash [sha256.Size]byte

// On reports whether the user may sign in.
func (r *Rights) On() bool { return r.on }

// Open reports whether the user needs no password.
func (r *Rights) Open() bool { return r.on && r.open }

// AnyPassword reports whether every password is right, if the user may sign in.
func (r *Rights) AnyPassword() bool { return r.open }

// Knows reports whether a password is one of the user's, by its hash. The time does not depend on which one it is.
func (r *Rights) Knows(password *Hash) bool {
	found := 0
	for i := range r.passwords {
		found |= subtle.ConstantTimeCompare(r.passwords[i][:], password[:])
	}
	return found == 1
}

// Free reports whether every decision on every key is allowed, so that nobody has to ask MayRun and MayUse.
func (r *Rights) Free() bool { return r.free }

// Plain reports whether the user may run every command on keys that is in none of @admin and @dangerous.
func (r *Rights) Plain() bool { return r.plain }

// MayRun reports whether the user may run a command, on some keys.
func (r *Rights) MayRun(c *spec.Command) bool {
	return r.commands.all || r.commands.has(c.ID) || c.Flags&spec.NoAuth != 0
}

// ReadsAll reports whether the user may read every key.
func (r *Rights) ReadsAll() bool { return r.all&spec.Reads != 0 }

// MayRead reports whether the user may read a key.
func (r *Rights) MayRead(key []byte) bool { return r.MayUse(key, spec.Reads) }

// MayReadCut reports whether the user may read every key that begins like this.
func (r *Rights) MayReadCut(begin []byte) bool {
	name := begin
	if rules.IsKey(begin) {
		name = appendCaller(nil, begin)
	}
	for i := range r.keys {
		if p := &r.keys[i]; p.access&spec.Reads != 0 && p.star && name != nil && p.match(name) {
			return true
		}
	}
	return false
}

// MayUse reports whether the user may read a key, change it, or both.
func (r *Rights) MayUse(key []byte, how spec.Access) bool {
	if r.all&how == how && r.all != 0 {
		return true
	}
	if rules.IsKey(key) {
		var room [keyRoom]byte
		return r.matches(appendCaller(room[:0], key), how)
	}
	return r.matches(key, how)
}

// MayCheck reports whether the user may read or change the callers of a namespace of rules.
func (r *Rights) MayCheck(namespace []byte, how spec.Access) bool {
	if r.all&how == how && r.all != 0 {
		return true
	}
	var room [keyRoom]byte
	name := appendCallers(room[:0], namespace)
	for i := range r.keys {
		// A pattern such as *: matches the beginning of the callers' names, and none of them.
		if p := &r.keys[i]; p.access&how == how && p.open() && p.match(name) {
			return true
		}
	}
	return false
}

// appendCallers appends what the names of the keys of a namespace's callers begin with.
func appendCallers(b, namespace []byte) []byte {
	return append(rules.AppendNamespace(append(b, callers...), namespace), ':')
}

// keyRoom is enough for the name of a caller's key.
const keyRoom = len(callers) + rules.MaxKey

// callers is what the names of callers' keys begin with, as patterns see them: rl:NAMESPACE:RULE:VALUES.
const callers = "rl:"

// appendCaller appends the name of the key of a rule's caller. Of a key that only looks like one, it is what no pattern but that for all
// keys matches.
func appendCaller(b, key []byte) []byte {
	name, ok := rules.CallerName(key)
	if !ok {
		return nil
	}
	return append(append(b, callers...), name...)
}

// matches reports whether a pattern allows what is done with a key of that name.
func (r *Rights) matches(name []byte, how spec.Access) bool {
	if name == nil {
		return false
	}
	for i := range r.keys {
		if p := &r.keys[i]; p.access&how == how && p.match(name) {
			return true
		}
	}
	return false
}

// Cost returns about how long MayUse takes for a key of n bytes, as glob.Pattern.Cost counts.
func (r *Rights) Cost(n int) int {
	cost := 0
	for i := range r.keys {
		cost += r.keys[i].cost(n)
	}
	return cost
}

// MayHear reports whether the user may use a channel or, if it is a pattern of channels, subscribe to all that it matches. As in Redis, such a
// pattern must be one of the user's.
func (r *Rights) MayHear(channel []byte, pattern bool) bool {
	if r.allChannels {
		return true
	}
	for i := range r.channels {
		if p := &r.channels[i]; p.text == string(channel) || !pattern && p.match(channel) {
			return true
		}
	}
	return false
}

// Reset returns the rights of a new user of that name: none. known are the commands that there are.
func Reset(name string, serial uint64) *Rights { return &Rights{Name: name, Serial: serial} }

// NewDefault returns the rights that the user default has until they are changed: everything, without a password.
func NewDefault(serial uint64) *Rights {
	r := Reset(Default, serial)
	r.on, r.open = true, true
	r.commands.allow()
	r.keys, r.channels = []keyPattern{every(spec.Reads | spec.Changes)}, []channelPattern{{text: "*", star: true}}
	r.derive(nil)
	return r
}

// derive sets what follows from the rest.
func (r *Rights) derive(known []*spec.Command) {
	r.all, r.allChannels = 0, false
	for i := range r.keys {
		if r.keys[i].everything() {
			r.all |= r.keys[i].access
		}
	}
	for i := range r.channels {
		r.allChannels = r.allChannels || r.channels[i].text == "*"
	}
	r.free = r.all == spec.Reads|spec.Changes
	r.plain = true
	for _, c := range known {
		may := r.MayRun(c)
		r.free = r.free && (may || c.Flags&spec.Ahead == 0)
		r.plain = r.plain && (may || c.Flags&(spec.Write|spec.Readonly) == 0 || c.Flags&(spec.Admin|spec.Dangerous) != 0)
	}
}

// clone returns a copy that can be changed.
func (r *Rights) clone() *Rights {
	c := *r
	c.passwords, c.keys, c.channels = slices.Clone(r.passwords), slices.Clone(r.keys), slices.Clone(r.channels)
	c.commands = r.commands.clone()
	return &c
}
