package persistence

// Read gives the parts the state in the directory, as Load does, and changes nothing on the disk. The parts are not resumed, and the
// store cannot be started: the caller ends it with Retire, Abandon or Release. The errors are those of Load, and ErrNoData if the directory has no state.
func (s *Store) Read() (Loaded, error) {
	s.files.Lock()
	defer s.files.Unlock()
	r := &recovery{s: s, written: -1, seq: 1}
	defer r.close()
	if s.Empty() {
		return r.Loaded, ErrNoData
	}
	if err := r.open(); err != nil {
		return r.Loaded, err
	}
	if err := r.verify(); err != nil {
		return r.Loaded, err
	}
	r.setNow()
	return r.Loaded, r.load()
}

// Instance returns the id of the directory, which stays the same for as long as it has data.
func (s *Store) Instance() [16]byte {
	s.files.Lock()
	defer s.files.Unlock()
	if s.man == nil {
		return [16]byte{}
	}
	return s.man.instance
}
