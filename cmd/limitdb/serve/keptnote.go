package serve

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"

	"limitdb/internal/disk"
)

// Of several groups, the rules and the users are in group 0's log. A node that starts again learns only from a node that leads group 0 what of that
// log is accepted, and may lead other groups before. So it notes the rules and users beside its replica, and begins with these. They are some
// seconds old at most.

const (
	noteFile = "kept"
	noteKind = "kept"
	maxNote  = 2 * disk.Small // rules may have 4 MB, and JSON takes a third more
)

// keptNote is the content of the file.
type keptNote struct{ Rules, Users []byte }

// note returns the rules and users to note. ok reports whether they come from the log yet.
func (k *keptRules) note() (n keptNote, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return keptNote{k.values[rulesText], k.values[usersText]}, k.values[directoryText] != nil
}

func (s *several) notePath() string { return filepath.Join(s.p.durable.groupDir(0), noteFile) }

// noteKept notes the rules and users that are accepted, if there are others than before.
func (s *several) noteKept() {
	node := s.home().node.Load()
	if node == nil {
		return
	}
	turn, ready := node.Turn(), node.Ready()
	n, ok := s.p.kept.note()
	switch {
	case !ok || !ready || bytes.Equal(n.Rules, s.noted.Rules) && bytes.Equal(n.Users, s.noted.Users):
		return
	case turn == 0 && node.Status().Behind:
		return // there are newer ones
	case turn != 0 && node.Confirm() != nil, node.Turn() != turn:
		return // they may not be accepted
	}
	if err := disk.WriteRecord(disk.OS{}, s.notePath(), noteKind, n); err != nil {
		s.p.log.Warn("the rules and users are not noted for the next start", "err", err)
		return
	}
	s.noted = n
}

// readKept puts the rules and users in force that the node has noted, if it has.
func (s *several) readKept() error {
	b, err := disk.ReadFile(disk.OS{}, s.notePath(), maxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var n keptNote
	if err := disk.Unseal(noteKind, b, &n); err != nil {
		s.p.log.Warn("the note of rules and users cannot be read: this node has none before it has heard of group 0", "err", err)
		return nil
	}
	if s.noted = n; n.Rules != nil {
		putRules(s.p, n.Rules)
	}
	if n.Users != nil {
		putUsers(s.p, n.Users)
	}
	return nil
}
