package main

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"limitdb/config"
	"limitdb/replication"
)

// loadNodeTLS reads the certificates with which nodes prove who they are, or returns nil if there are none.
func loadNodeTLS(set *config.Settings) (*replication.Certificates, error) {
	if !set.RaftSecure() {
		return nil, nil
	}
	c, err := replication.LoadCertificates(replication.CertificateFiles{
		Cert: set.RaftTLSCertFile.Get(), Key: set.RaftTLSKeyFile.Get(), CA: set.RaftTLSCACertFile.Get(),
	})
	if err == nil && set.RaftID.Get() != "" {
		err = c.Check(set.RaftID.Get())
	}
	return c, err
}

// agree returns what the nodes compare. A hash of the password goes to peers that have proved who they are, and to no others.
func (r *replica) agree() map[string]string {
	set := r.p.set
	all := map[string]string{
		"maxmemory":        strconv.FormatInt(set.MaxMemory.Get(), 10),
		"maxmemory-policy": set.MaxMemoryPolicy.Get(),
		"requirepass":      "none",
		"rules":            "in the log of the cluster",
	}
	if set.RulesFile.Get() != "" {
		sum := r.p.server.RulesSum()
		all["rules"] = hex.EncodeToString(sum[:8])
	}
	if pass := set.RequirePass.Get(); pass != "" {
		all["requirepass"] = "set"
		if r.certs != nil {
			sum := sha256.Sum256([]byte("limitdb " + pass))
			all["requirepass"] = hex.EncodeToString(sum[:8])
		}
	}
	return all
}
