package disk

// A Stretch writes a long file from its beginning, and syncs it in stretches. One sync at the end would hold up the syncs
// of a log for as long as it takes to write the whole file. What is synced is dropped from the system's cache, so the file
// reuses a few MB of memory instead of filling as much as its own size.
type Stretch struct {
	File
	// Bytes is how long a stretch is.
	Bytes int64
	// End is how much is written, and Synced how much of that is durable.
	End, Synced int64
}

// Write writes bytes behind those before them.
func (s *Stretch) Write(b []byte) (int, error) {
	n, err := s.WriteAt(b, s.End)
	s.End += int64(n)
	if err == nil && s.End-s.Synced >= s.Bytes {
		err = s.Sync()
	}
	return n, err
}

// Sync makes everything durable.
func (s *Stretch) Sync() error {
	err := s.File.Sync()
	if err == nil {
		s.Forget(s.Synced, s.End-s.Synced)
		s.Synced = s.End
	}
	return err
}
