package scripts

// Brought are the scripts that another node has from this one, by a stream. Its zero value is ready to use.
type Brought struct {
	all     map[*Script]bool
	changes uint64 // the value of Cache.Changes when they were: another node may have forgotten what is loaded again
}

// Add notes that the other node is about to get a script that s holds, and reports whether it has not got it before.
func (b *Brought) Add(s *Cache, script *Script) bool {
	if changes := s.Changes(); b.changes != changes || len(b.all) >= MaxScripts {
		b.changes, b.all = changes, nil
	}
	if b.all[script] {
		return false
	}
	if b.all == nil {
		b.all = map[*Script]bool{}
	}
	b.all[script] = true
	return true
}
