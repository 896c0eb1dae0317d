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

// SavePoint asks for a snapshot when there are that many changes and the last snapshot is that old.
type SavePoint struct {
	After   time.Duration
	Changes int64
}

// SavePoints returns the points in the directive save.
func (s *Settings) SavePoints() []SavePoint {
	points, _ := parseSavePoints(s.Save.Get()) // it was checked when it was set
	return points
}

// parseSavePoints parses pairs of seconds and changes.
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

// parses returns the check that parse succeeds.
func parses[T any](parse func(words []string) (T, error)) func([]string) error {
	return func(words []string) error {
		_, err := parse(words)
		return err
	}
}

func notEmpty(s string) error {
	if s == "" {
		return errEmpty
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
	case !on && s.RaftAck.Get() == "leader":
		return errors.New("raft-ack leader needs raft-addr")
	case on && len(s.Save.Get()) > 0:
		return errors.New("save does nothing with raft-addr: nodes make snapshots as their log grows")
	case on && s.RecoveryMode.Get() != "normal":
		return errors.New("recovery-mode conservative does not go with raft-addr: a majority of the nodes has every change that was answered")
	case on && s.RecoveryClock.Get() == "wall":
		return errors.New("recovery-clock wall does not go with raft-addr: the nodes agree on the time")
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

// maxSocketPath is the maximum length of a unix socket's path on Linux.
const maxSocketPath = 107

func socketPath(s string) error {
	if len(s) > maxSocketPath {
		return fmt.Errorf("the path of a unix socket has at most %d bytes", maxSocketPath)
	}
	return nil
}

// Addr is an address to listen on.
type Addr struct {
	// Host is an IP address, the name of a host, or "" for all addresses of both families.
	Host string
	// Optional means that it is no error if the machine has no such address.
	Optional bool
}

// Addrs returns the addresses in bind.
func (s *Settings) Addrs() []Addr { return addrs(s.Bind.Get()) }

// HTTPAddrs returns the addresses of the HTTP port: those in http-bind or, if it is empty, those in bind.
func (s *Settings) HTTPAddrs() []Addr {
	if words := s.HTTPBind.Get(); len(words) > 0 {
		return addrs(words)
	}
	return s.Addrs()
}

// GRPCAddrs returns the addresses of the gRPC port: those in grpc-bind or, if it is empty, those in bind.
func (s *Settings) GRPCAddrs() []Addr {
	if words := s.GRPCBind.Get(); len(words) > 0 {
		return addrs(words)
	}
	return s.Addrs()
}

// addrs parses the words of bind. Here "*" means all addresses of both families, so "::*" beside it, as in
// Redis' own configuration, adds nothing.
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

// allIPv6 is Redis' word for all IPv6 addresses.
const allIPv6 = "::*"

// maxAddrs is the maximum number of addresses, the same as in Redis.
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

// TrustedProxies returns the networks in http-trusted-proxies.
func (s *Settings) TrustedProxies() []netip.Prefix {
	nets, _ := parseNetworks(s.HTTPTrustedProxies.Get()) // it was checked when it was set
	return nets
}

// parseNetworks parses addresses, and networks such as 10.0.0.0/8.
func parseNetworks(words []string) ([]netip.Prefix, error) {
	if len(words) > maxNetworks {
		return nil, fmt.Errorf("at most %d networks can be given", maxNetworks)
	}
	var nets []netip.Prefix
	for _, w := range words {
		net, err := netip.ParsePrefix(w)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(w); err == nil {
				net = netip.PrefixFrom(a.WithZone(""), a.BitLen())
			}
		}
		switch {
		case err != nil || net.Addr().Is4In6():
			return nil, fmt.Errorf("%s is neither an IP address nor a network such as 10.0.0.0/8", quote(w))
		case net != net.Masked():
			return nil, fmt.Errorf("%s has bits of an address in it: the network is %s", quote(w), net.Masked())
		}
		nets = append(nets, net)
	}
	return nets, nil
}

// maxNetworks is the maximum number of networks in a directive.
const maxNetworks = 256

func hostNames(words []string) error {
	for _, w := range words {
		if !hostName(w) {
			return fmt.Errorf("%s is not the name of a host", quote(w))
		}
	}
	return nil
}

// hostName reports whether s can be a host name: labels of letters, digits, - and _, separated by dots. The
// last label must not be all digits, so that a misspelt IP address is not a host name.
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

// Percentiles returns the percentiles in latency-tracking-info-percentiles.
func (s *Settings) Percentiles() []float64 {
	all, _ := parsePercentiles(s.LatencyPercentiles.Get()) // they were checked when they were set
	return all
}

// parsePercentiles parses numbers from 0 to 100.
func parsePercentiles(words []string) (all []float64, err error) {
	for _, w := range words {
		p, err := strconv.ParseFloat(w, 64)
		if err != nil || !(p >= 0 && p <= 100) { // NaN fails both comparisons
			return nil, fmt.Errorf("%s is not a percentile: use numbers from 0 to 100", quote(w))
		}
		all = append(all, p)
	}
	return all, nil
}

// shutdownWords checks the words for a signal.
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

// hasWord reports whether word is among words, ignoring case.
func hasWord(words []string, word string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}

// Shutdown is the way in which a signal stops the server.
type Shutdown struct {
	Now  bool // do not wait for clients
	Save bool // make a snapshot
}

// OnSignal returns the meaning of shutdown-on-sigterm or shutdown-on-sigint. The words nosave and force have
// no effect: a stop makes no snapshot by default, and a failed snapshot never prevents the stop.
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

// checkUsers finds users in two places.
func checkUsers(s *Settings) error {
	if s.ACLFile.Get() != "" && len(s.User.Get()) > 0 {
		return errors.New("aclfile and user are both given: put all users into one of them")
	}
	return nil
}

// checkTLS finds TLS settings that contradict one another.
func checkTLS(r *Registry, s *Settings) error {
	port, needs := s.TLSPort.Get(), ""
	switch {
	case port != 0:
		needs = "tls-port"
	case s.HTTPTLS.Get():
		needs = "http-tls"
	case s.GRPCTLS.Get():
		needs = "grpc-tls"
	default:
		return nil
	}
	auth, authority := s.TLSAuthClients.Get(), s.TLSCACertFile.Get()
	switch {
	case port != 0 && port == s.Port.Get():
		return fmt.Errorf("port and tls-port are both %d", port)
	case s.TLSCertFile.Get() == "" || s.TLSKeyFile.Get() == "":
		return errors.New(needs + " needs tls-cert-file and tls-key-file")
	case auth != "no" && authority == "":
		return fmt.Errorf("tls-auth-clients %s needs tls-ca-cert-file", auth)
	case authority != "" && r.byName[s.TLSAuthClients.Name()].value().source == fromDefault:
		// Redis would ask for certificates here, so the user may believe that limitdb does.
		return errors.New("tls-ca-cert-file needs tls-auth-clients: set it to yes, optional or no")
	}
	return nil
}

// checkLengths finds limits that make another limit useless.
func checkLengths(s *Settings) error {
	bulk := s.ProtoMaxBulkLen.Get()
	if query := s.ClientQueryBufferLimit.Get(); bulk > query {
		return fmt.Errorf("proto-max-bulk-len %d is more than client-query-buffer-limit %d", bulk, query)
	}
	return nil
}

// remarkMemory warns about a maxmemory for which some of the table's parts have no room for one key.
func remarkMemory(s *Settings) string {
	const little = 2 << 20
	if n := s.MaxMemory.Get(); n > 0 && n < little {
		return fmt.Sprintf("maxmemory %d is less than 2mb: parts of the table have no room for a single key, so some new keys get -OOM", n)
	}
	return ""
}

// remarkOutput warns about clients whose replies have no limit of their own.
func remarkOutput(s *Settings) string {
	if l := s.ClientOutputBufferLimit.Get(NormalClient); l.Hard > 0 {
		return ""
	}
	return "client-output-buffer-limit has no hard limit for normal clients: only maxmemory-clients bounds their unsent replies"
}
