package rules

// AppendMetric appends the name under which Envoy's rate limit service counts what the descriptor at an index is: the domain and the entries, with
// dots between them. It appends nothing for a descriptor without a Limit.
func (l *Lookup) AppendMetric(b []byte, at int) []byte {
	m, entries := &l.Matches[at], l.request[at].Entries
	switch {
	case m.Limit == nil:
		return b
	case m.at == nil:
		return appendOverrideMetric(append(b, l.domain.name...), entries)
	}
	b = append(b, l.domain.name...)
	l.walk(entries)
	detailed, shares := m.at.detailed, l.shares()
	n := &l.domain.root
	for i := range entries {
		e := &entries[i]
		child, wildcard := l.step(n, e)
		value := e.Value
		switch as := l.shared[i]; {
		case as != "":
			value = as
		case detailed, child.valueToMetric, !wildcard && child != n.children[e.Key]:
		case wildcard:
			value = child.pattern(e)
		default:
			value = ""
		}
		b = append(append(b, '.'), e.Key...)
		if value != "" || detailed && !shares {
			b = append(append(b, '_'), value...)
		}
		n = child
	}
	return b
}

// shares reports whether something stands for a value.
func (l *Lookup) shares() bool {
	for _, as := range l.shared {
		if as != "" {
			return true
		}
	}
	return false
}

func appendOverrideMetric(b []byte, entries []Entry) []byte {
	b = append(b, '.')
	for i, e := range entries {
		if i > 0 {
			b = append(b, '.')
		}
		b = append(b, e.Key...)
		if e.Value != "" {
			b = append(append(b, '_'), e.Value...)
		}
	}
	return b
}
