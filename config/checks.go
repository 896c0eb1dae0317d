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

// errLoopback is the reason while nodes do not make sure who their peers are.
var errLoopback = errors.New("argument must be an IP address of loopback and a port")

func loopbackAddress(s string) error {
	if a, err := netip.ParseAddrPort(s); s != "" && (err != nil || !a.Addr().IsLoopback() || a.Port() == 0) {
		return errLoopback
	}
	return nil
}

// checkRaft refuses directives that do not go together.
func checkRaft(s *Settings) error {
	on := s.RaftAddr.Get() != ""
	switch {
	case !on && s.RaftBootstrap.Get():
		return errors.New("raft-bootstrap needs raft-addr")
	case !on && s.RaftID.Get() != "":
		return errors.New("raft-id needs raft-addr")
	case on && len(s.Save.Get()) > 0:
		return errors.New("save does nothing with raft-addr: nodes make snapshots as their log grows")
	case on && s.RecoveryMode.Get() != "normal":
		return errors.New("recovery-mode conservative is not for a server with raft-addr: what was answered is on a majority of the nodes")
	case on && s.TLSPort.Get() != 0 && s.Port.Get() == 0:
		return errors.New("raft-addr needs port: MOVED names the plain port")
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
	// Host is an IP address or the name of a host, or "" for all addresses of
	// both families.
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
		if _, err := netip.ParseAddr(host); err != nil && !hostName(host) {
			return fmt.Errorf("%s is neither an IP address nor the name of a host (* is all addresses)", quote(host))
		}
	}
	return nil
}

// hostName reports whether s can be the name of a host: labels of letters,
// digits, - and _ with dots between them, the last one not all digits, so that a
// misspelt IP address is none.
func hostName(s string) bool {
	const longest, longestLabel = 253, 63
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	for _, l := range labels {
		if l == "" || len(l) > longestLabel || l[0] == '-' || l[len(l)-1] == '-' {
			return false
		}
		for i := range len(l) {
			c := l[i] | 0x20
			if !('a' <= c && c <= 'z' || '0' <= l[i] && l[i] <= '9' || l[i] == '-' || l[i] == '_') {
				return false
			}
		}
	}
	return len(s) <= longest && !isDigits(labels[len(labels)-1])
}

// percentiles checks numbers from 0 to 100.
func percentiles(words []string) error {
	for _, w := range words {
		if _, err := parsePercentile(w); err != nil {
			return err
		}
	}
	return nil
}

func parsePercentile(word string) (float64, error) {
	p, err := strconv.ParseFloat(word, 64)
	if err != nil || !(p >= 0 && p <= 100) { // NaN is neither
		return 0, fmt.Errorf("%s is not a percentile: use numbers from 0 to 100", quote(word))
	}
	return p, nil
}

// Percentiles returns the percentiles that latency-tracking-info-percentiles has.
func (s *Settings) Percentiles() []float64 {
	var all []float64
	for _, w := range s.LatencyPercentiles.Get() {
		if p, err := parsePercentile(w); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// shutdownWords checks what a signal may ask for.
func shutdownWords(words []string) error {
	for _, w := range words {
		if !slices.Contains([]string{"default", "save", "nosave", "now", "force"}, strings.ToLower(w)) {
			return fmt.Errorf("argument(s) must be some of the following: default, save, nosave, now, force")
		}
	}
	has := func(w string) bool { return hasWord(words, w) }
	if len(words) == 0 || has("save") && has("nosave") || has("default") && len(words) > 1 {
		return errors.New("default stands alone, and save and nosave exclude each other")
	}
	return nil
}

// hasWord reports whether word is among words in any case.
func hasWord(words []string, word string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}

// Shutdown is how a signal stops the server.
type Shutdown struct {
	Now  bool // clients are not waited for
	Save bool // a snapshot is made
}

// OnSignal returns what shutdown-on-sigterm or shutdown-on-sigint asks for. Nosave
// and force ask for nothing: a stop makes no snapshot, and a snapshot that fails
// never keeps the server.
func OnSignal(h *Words) Shutdown {
	words := h.Get()
	return Shutdown{Now: hasWord(words, "now"), Save: hasWord(words, "save")}
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
		return errors.New("tls-ca-cert-file needs tls-auth-clients: set it to yes, optional or no")
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

// remarkOutput warns of clients whose replies have no bound of their own.
func remarkOutput(s *Settings) string {
	if l := s.ClientOutputBufferLimit.Get(NormalClient); l.Hard > 0 {
		return ""
	}
	return "client-output-buffer-limit has no hard limit for normal clients: only maxmemory-clients bounds their unsent replies"
}
