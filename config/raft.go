package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

var (
	errHostPort = errors.New("argument must be a host or an IP address that others can dial, and a port")
	errRaftID   = errors.New("argument must be a name of at most 63 letters, digits, - and _")
)

// hostPort checks an address that other machines dial.
func hostPort(s string) error {
	if s == "" {
		return nil
	}
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return errHostPort
	}
	port, err := strconv.ParseUint(text, 10, 16)
	ip, notIP := netip.ParseAddr(host)
	if err != nil || port == 0 || notIP != nil && !hostName(host) || notIP == nil && ip.IsUnspecified() {
		return errHostPort
	}
	return nil
}

// raftID checks the name of a node, which must fit into a certificate.
func raftID(s string) error {
	const longest = 63
	if len(s) > longest {
		return errRaftID
	}
	for i := range len(s) {
		c := s[i] | 0x20
		if !('a' <= c && c <= 'z' || '0' <= s[i] && s[i] <= '9' || s[i] == '-' || s[i] == '_') {
			return errRaftID
		}
	}
	return nil
}

// oddNumber checks how many replicas there are: of an even number, no more may be lost than of one fewer.
func oddNumber(n int64) error {
	if n%2 == 0 {
		return errors.New("argument must be an odd number")
	}
	return nil
}

// RaftSecure reports whether the nodes of the cluster prove to one another who they are.
func (s *Settings) RaftSecure() bool { return s.RaftTLSCertFile.Get() != "" }

// checkNodes refuses directives of a node that do not go together.
func checkNodes(s *Settings) error {
	address := s.RaftAddr.Get()
	if address == "" && s.RaftGroups.Get() > 1 {
		return errors.New("raft-groups needs raft-addr")
	}
	for _, d := range []*Text{s.RaftJoin, s.RaftZone, s.RaftTLSCertFile, s.RaftTLSKeyFile, s.RaftTLSCACertFile} {
		if address == "" && d.Get() != "" {
			return errors.New(d.Name() + " needs raft-addr")
		}
	}
	for _, d := range []*Text{s.RaftTLSCertFile, s.RaftTLSKeyFile, s.RaftTLSCACertFile} {
		if d.Get() == "" && s.RaftTLSCertFile.Get()+s.RaftTLSKeyFile.Get()+s.RaftTLSCACertFile.Get() != "" {
			return fmt.Errorf("raft-tls-cert-file, raft-tls-key-file and raft-tls-ca-cert-file belong together: %s is missing", d.Name())
		}
	}
	if address != "" && !s.RaftSecure() {
		if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().IsLoopback() {
			return fmt.Errorf("raft-addr %s can be reached from other machines: the nodes need raft-tls-cert-file, raft-tls-key-file and raft-tls-ca-cert-file", address)
		}
	}
	lease, heartbeat, election := s.RaftLease.Get(), s.RaftHeartbeat.Get(), s.RaftElection.Get()
	if lease > heartbeat || heartbeat > election {
		ms := func(d time.Duration) int64 { return d.Milliseconds() }
		return fmt.Errorf("raft-lease-timeout %d must not be more than raft-heartbeat-timeout %d, nor that more than raft-election-timeout %d", ms(lease), ms(heartbeat), ms(election))
	}
	return nil
}
