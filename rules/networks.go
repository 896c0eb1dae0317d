package rules

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"go.yaml.in/yaml/v3"
)

// A list in a match is of IP networks:
//
//	match: {ip: [10.0.0.0/8, 2001:db8::/32, 192.0.2.7]}
//
// A value matches if it is an address in one of them. An IPv4 address in the form of IPv6 (::ffff:192.0.2.1) is an IPv4 address, in the
// file and in a request. A value that is no address is in no network.

// networks finds the networks of an address in one binary search, however many there are.
type networks struct {
	all    []netip.Prefix // sorted by address, of two with the same one the larger first; each once
	within []int32        // of each the smallest other one that it lies in, -1: none
}

// makeNetworks makes networks of some, which may be there twice. It sorts the slice and keeps it.
func makeNetworks(all []netip.Prefix) networks {
	slices.SortFunc(all, comparePrefixes)
	n := networks{all: slices.Compact(all)}
	n.within = make([]int32, len(n.all))
	for i := range n.all {
		at := int32(i) - 1
		for at >= 0 && !n.all[at].Contains(n.all[i].Addr()) {
			at = n.within[at]
		}
		n.within[i] = at
	}
	return n
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// largest returns the networks that lie in no other one.
func largest(all []netip.Prefix) networks {
	n := makeNetworks(all)
	i := -1
	return makeNetworks(slices.DeleteFunc(n.all, func(netip.Prefix) bool { i++; return n.within[i] >= 0 }))
}

// find returns the smallest network that an address is in, -1 if there is none. The others are those that it lies in.
func (n *networks) find(a netip.Addr) int32 {
	low, high := 0, len(n.all) // the networks before low begin at a or before it, those from high on after it
	for low < high {
		if mid := (low + high) / 2; n.all[mid].Addr().Compare(a) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	// A network that has a begins before it; and if the last that does lies in another one, it ends no later.
	at := int32(low) - 1
	for at >= 0 && !n.all[at].Contains(a) {
		at = n.within[at]
	}
	return at
}

// has reports whether an address is in one of the networks.
func (n *networks) has(a netip.Addr) bool { return n.find(a) >= 0 }

// hasOnly reports whether a pattern has only one value, which is an address in one of the networks.
func (n *networks) hasOnly(p *pattern) bool {
	value, exact := p.exact()
	a, ok := parseAddress([]byte(value))
	return exact && ok && n.has(a)
}

// covers reports whether each network of o lies in one of n. Neither has networks that lie in others.
func (n *networks) covers(o *networks) bool {
	at := 0
	for _, p := range o.all {
		for at < len(n.all) && !(n.all[at].Bits() <= p.Bits() && n.all[at].Contains(p.Addr())) {
			if at++; at < len(n.all) && n.all[at].Addr().Compare(p.Addr()) > 0 {
				return false
			}
		}
		if at == len(n.all) {
			return false
		}
	}
	return true
}

// excludes reports whether no address is in both. Neither has networks that lie in others.
func (n *networks) excludes(o *networks) bool {
	for i, j := 0, 0; i < len(n.all) && j < len(o.all); {
		if n.all[i].Overlaps(o.all[j]) {
			return false
		}
		if n.all[i].Addr().Less(o.all[j].Addr()) {
			i++
		} else {
			j++
		}
	}
	return true
}

// shownNetworks is how many networks of a list are shown.
const shownNetworks = 8

// networksText shows a list of networks as it is written, the first of a long one.
func networksText(list []spot) string {
	var words []string
	for _, s := range list[:min(len(list), shownNetworks)] {
		words = append(words, s.text)
	}
	if more := len(list) - shownNetworks; more > 0 {
		words = append(words, "and "+strconv.Itoa(more)+" more")
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// networks reads the list of networks of a field.
func (d *decoder) networks(n *yaml.Node, name spot) pairDoc {
	p := pairDoc{name: name}
	var list []spot
	d.items(n, "the networks of "+quote(name.text), func(item *yaml.Node) {
		s := d.spot(item, "a network")
		if !s.given() {
			return
		}
		net, err := parseNetwork(s.text)
		if err != nil {
			d.fail(item, "%v", err)
			return
		}
		list, p.nets = append(list, s), append(p.nets, net)
	})
	if len(n.Content) == 0 {
		d.fail(n, "the list of networks of %s is empty", quote(name.text))
	}
	if p.value = (spot{networksText(list), n}); p.nets == nil {
		p.value.text = "*" // nothing follows from a mistake
	}
	return p
}

// parseNetwork reads a network, or an address, which is a network of one.
func parseNetwork(text string) (netip.Prefix, error) {
	before, after, slash := strings.Cut(text, "/")
	a, err := netip.ParseAddr(before)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%s is no IP address or network: a list in a match has those, such as 192.0.2.7 or 10.0.0.0/8", quote(text))
	}
	bits, family := a.BitLen(), 6
	if a.Is4() {
		family = 4
	}
	if slash {
		n, ok := parseCost([]byte(after))
		if !ok || n > int64(bits) || len(after) > 1 && after[0] == '0' {
			return netip.Prefix{}, fmt.Errorf("%s: an IPv%d network has /0 to /%d", quote(text), family, bits)
		}
		bits = int(n)
	}
	p := netip.PrefixFrom(a, bits)
	if masked := p.Masked(); masked != p {
		return netip.Prefix{}, fmt.Errorf("%s has bits after the first %d: write %s for the network, or %s for the address", quote(text), bits, masked, a)
	}
	if a.Is4In6() { // no bits after the first, so there are 96 or more
		p = netip.PrefixFrom(a.Unmap(), bits-96)
	}
	return p, nil
}

// parseAddress reads an address. A zone (%eth0) is left out. It allocates nothing, but for some texts that look like an address and
// are none.
func parseAddress(v []byte) (netip.Addr, bool) {
	if i := bytes.IndexByte(v, '%'); i >= 0 {
		v = v[:i]
	}
	if !likeAddress(v) {
		return netip.Addr{}, false
	}
	// The address keeps no part of the text, since it has no zone.
	a, err := netip.ParseAddr(unsafe.String(unsafe.SliceData(v), len(v)))
	return a.Unmap(), err == nil
}

// likeAddress reports whether a text has the bytes of an address. One with a port has not.
func likeAddress(v []byte) bool {
	if len(v) > len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255") {
		return false
	}
	dots, colons := 0, 0
	for _, c := range v {
		switch {
		case c == '.':
			dots++
		case c == ':':
			if colons++; dots > 0 {
				return false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return colons > 1 || dots == 3
}

// address returns the address in a field, which is there. It remembers the last one, since rules often look at the same field.
func (q *Query) address(field int32) (netip.Addr, bool) {
	if q.addressOf != field+1 {
		q.addressOf = field + 1
		q.parsed, q.isAddress = parseAddress(q.values[field])
	}
	return q.parsed, q.isAddress
}

// likeNetwork reports whether a text can only be meant as a network.
func likeNetwork(text string) bool {
	_, err := parseNetwork(text)
	return err == nil && strings.Contains(text, "/")
}
