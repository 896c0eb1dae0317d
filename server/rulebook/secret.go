package rulebook

import "sync/atomic"

// secret is what is hashed with identities that are too long for a key.
type secret struct {
	set   atomic.Pointer[[16]byte] // nil while it is to follow
	drawn [16]byte                 // the secret, unless another is set
}

// errNoSecret is replied to what needs keys of callers before the secret is known.
const errNoSecret = "CLUSTERDOWN this node has not heard yet how the nodes of its cluster hash long values: ask again"

// missing returns errNoSecret while the secret is to follow, and then "".
func (s *secret) missing() string {
	if s.set.Load() == nil {
		return errNoSecret
	}
	return ""
}

// bytes returns the secret, nil while it is to follow.
func (s *secret) bytes() []byte {
	if set := s.set.Load(); set != nil {
		return set[:]
	}
	return nil
}
