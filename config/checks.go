package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	errSavePoints = errors.New("argument must be pairs of seconds and changes, each 1 or more")
	errEmpty      = errors.New("argument must not be empty")
	errPower      = errors.New("argument must be a power of two")
	errNoAddress  = errors.New("at least one address is needed")
)

// SavePoint asks for a snapshot when so many decisions have changed something
// and the last snapshot is so long ago.
type SavePoint struct {
	After   time.Duration
	Changes int64
}

// SavePoints are the points that save has.
func (s *Settings) SavePoints() []SavePoint {
	points, err := parseSavePoints(s.Save.Get())
	if err != nil {
		return nil // it was checked when it was set
	}
	return points
}

func savePoints(words []string) error {
	_, err := parseSavePoints(words)
	return err
}

// parseSavePoints reads pairs of seconds and changes.
func parseSavePoints(words []string) ([]SavePoint, error) {
	if len(words)%2 != 0 {
		return nil, errSavePoints
	}
	var points []SavePoint
	for ; len(words) > 0; words = words[2:] {
		seconds, err1 := strconv.ParseInt(words[0], 10, 32)
		changes, err2 := strconv.ParseInt(words[1], 10, 64)
		if err1 != nil || err2 != nil || seconds < 1 || changes < 1 {
			return nil, errSavePoints
		}
		points = append(points, SavePoint{time.Duration(seconds) * time.Second, changes})
	}
	return points, nil
}

func notEmpty(s string) error {
	if s == "" {
		return errEmpty
	}
	return nil
}

func powerOfTwo(n int64) error {
	if n&(n-1) != 0 {
		return errPower
	}
	return nil
}

// maxSocketPath is the longest path of a unix socket that Linux takes.
const maxSocketPath = 107

func socketPath(s string) error {
	if len(s) > maxSocketPath {
		return fmt.Errorf("the path of a unix socket has at most %d bytes", maxSocketPath)
	}
	return nil
}

// Addr is one address to listen on.
type Addr struct {
	// Host is an IP address, or "" for all addresses of both families.
	Host string
	// Optional says that it is no error if the machine has no such address.
	Optional bool
}

// Addrs returns the addresses that bind names.
func (s *Settings) Addrs() []Addr { return addrs(s.Bind.Get()) }

// HTTPAddrs returns the addresses of the HTTP port: those that http-bind names
// or, if it is empty, those of bind.
func (s *Settings) HTTPAddrs() []Addr {
	if words := s.HTTPBind.Get(); len(words) > 0 {
		return addrs(words)
	}
	return s.Addrs()
}

// addrs reads the words of bind. "*" is all addresses of both families here, so
// that "::*" beside it, as in Redis' own configuration, adds nothing.
func addrs(words []string) []Addr {
	var all []Addr
	for _, w := range words {
		host, optional := strings.CutPrefix(w, "-")
		switch {
		case host == "*":
			host = ""
		case host == allIPv6 && slices.ContainsFunc(words, func(w string) bool { return strings.TrimPrefix(w, "-") == "*" }):
			continue
		case host == allIPv6:
			host = "::"
		}
		all = append(all, Addr{Host: host, Optional: optional})
	}
	return all
}

// allIPv6 is Redis' word for all addresses of IPv6.
const allIPv6 = "::*"

// maxAddrs is as in Redis.
const maxAddrs = 16

func addresses(words []string) error {
	if len(words) > maxAddrs {
		return fmt.Errorf("at most %d addresses can be given", maxAddrs)
	}
	for _, w := range words {
		host := strings.TrimPrefix(w, "-")
		if host == "*" || host == allIPv6 {
			continue
		}
		if _, err := netip.ParseAddr(host); err != nil {
			return fmt.Errorf("%s is not an IP address (* is all addresses)", quote(host))
		}
	}
	return nil
}

func someAddresses(words []string) error {
	if len(words) == 0 {
		return errNoAddress
	}
	return addresses(words)
}

// checkTLS finds settings of TLS that do not fit together.
func checkTLS(r *Registry, s *Settings) error {
	port := s.TLSPort.Get()
	if port == 0 {
		return nil
	}
	auth, authority := s.TLSAuthClients.Get(), s.TLSCACertFile.Get()
	switch {
	case port == s.Port.Get():
		return fmt.Errorf("port and tls-port are both %d", port)
	case s.TLSCertFile.Get() == "" || s.TLSKeyFile.Get() == "":
		return errors.New("tls-port needs tls-cert-file and tls-key-file")
	case auth != "no" && authority == "":
		return fmt.Errorf("tls-auth-clients %s needs tls-ca-cert-file", auth)
	case authority != "" && r.byName[s.TLSAuthClients.Name()].source == fromDefault:
		// Redis would ask for certificates here, so the user may think
		// that we do.
		return errors.New("tls-ca-cert-file needs tls-auth-clients: say yes, optional or no")
	}
	return nil
}

// checkLengths finds limits of which one makes another pointless.
func checkLengths(s *Settings) error {
	bulk := s.ProtoMaxBulkLen.Get()
	if query := s.ClientQueryBufferLimit.Get(); bulk > query {
		return fmt.Errorf("proto-max-bulk-len %d is more than client-query-buffer-limit %d", bulk, query)
	}
	return nil
}
