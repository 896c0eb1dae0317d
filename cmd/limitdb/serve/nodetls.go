package serve

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"sync"

	"limitdb/config"
	"limitdb/replication/peers"
)

// loadNodeTLS reads the certificates by which nodes prove who they are. It returns nil if the configuration names none.
func loadNodeTLS(set *config.Settings) (*peers.Certificates, error) {
	if !set.RaftSecure() {
		return nil, nil
	}
	c, err := peers.LoadCertificates(peers.CertificateFiles{
		Cert: set.RaftTLSCertFile.Get(), Key: set.RaftTLSKeyFile.Get(), CA: set.RaftTLSCACertFile.Get(),
	})
	if err == nil && set.RaftID.Get() != "" {
		err = c.Check(set.RaftID.Get())
	}
	return c, err
}

// secretSum remembers the hash of a password, since a new one takes a few milliseconds.
type secretSum struct {
	mu        sync.Mutex
	text, sum string // guarded by mu
}

// of returns a slow hash of a password, so that guessing takes long.
func (s *secretSum) of(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text != text {
		key, err := pbkdf2.Key(sha256.New, text, []byte("limitdb: the password of a cluster's clients"), 20_000, 8)
		if err != nil {
			return "set" // a FIPS mode that refuses short passwords
		}
		s.text, s.sum = text, hex.EncodeToString(key)
	}
	return s.sum
}

// agree returns what the nodes compare. A hash of the password goes to peers that have proved who they are, and to no others.
func (m *member) agree() map[string]string {
	set := m.p.set
	all := map[string]string{
		"maxmemory":        strconv.FormatInt(set.MaxMemory.Get(), 10),
		"maxmemory-policy": set.MaxMemoryPolicy.Get(),
		"requirepass":      "none",
		"rules":            "in the log of the cluster",
	}
	if set.RulesFile.Get() != "" {
		sum := m.p.server.Rules().Sum()
		all["rules"] = hex.EncodeToString(sum[:8])
	}
	if set.EnvoyRulesDir.Get() != "" {
		sum := m.p.server.Rules().DomainsSum()
		all["envoy-rules"] = hex.EncodeToString(sum[:8])
	}
	if pass := set.RequirePass.Get(); pass != "" {
		all["requirepass"] = "set"
		if m.certs != nil {
			all["requirepass"] = m.password.of(pass)
		}
	}
	return all
}
