package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"limitdb/internal/disk"
)

// The secret that is hashed with long identities says which slot the key of such a caller has. So all nodes of a cluster of several groups must have
// the same before they find the group of a check. It is in group 0's log, whatever the rules come from. A node also notes it beside its replica of
// that group: when it starts again, it may lead other groups before any node leads group 0.

const (
	secretFile = "secret"
	secretKind = "hash"
)

// sharedSecret is the content of the file.
type sharedSecret struct{ Secret [16]byte }

// ofSeveral reports whether the process is a node of a cluster of several groups.
func (m *member) ofSeveral() bool { return m != nil && m.several != nil }

// putSecret puts a secret in force that cannot be another one any more.
func putSecret(p *process, secret [16]byte) {
	book := p.server.Rules()
	if was, known := book.Secret(); p.member.ofSeveral() && (!known || was != secret) {
		if err := disk.WriteRecord(disk.OS{}, p.member.several.secretPath(), secretKind, sharedSecret{secret}); err != nil {
			p.member.fatal(fmt.Errorf("the secret for hashing long identities is not written: %w", err))
			return
		}
	}
	book.SetSecret(secret)
}

func (s *several) secretPath() string { return filepath.Join(s.p.durable.groupDir(0), secretFile) }

// readSecret puts the secret in force that the node has noted, if it has. Without one, or if the file is damaged, the node waits for group 0's log.
func (s *several) readSecret() error {
	var was sharedSecret
	err := disk.ReadRecord(disk.OS{}, s.secretPath(), secretKind, &was)
	switch {
	case err == nil:
		s.p.server.Rules().SetSecret(was.Secret)
	case errors.Is(err, disk.ErrDamaged):
		s.p.log.Warn("the note of the secret for hashing long identities is damaged: this node makes no checks before it has heard of group 0", "err", err)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// hasSecret reports whether this node knows the secret.
func (s *several) hasSecret() bool {
	_, known := s.p.server.Rules().Secret()
	return known
}

// acceptSecret puts the secret in force that this node has put in group 0's log, once that is accepted. It does nothing on a node that does not lead
// group 0, which has it from the log.
func (s *several) acceptSecret() {
	node := s.home().node.Load()
	if node == nil || s.hasSecret() {
		return
	}
	turn := node.Turn()
	secret, ok := s.p.kept.secret()
	if turn != 0 && ok && node.Confirm() == nil && node.Turn() == turn {
		putSecret(s.p, secret)
	}
}
