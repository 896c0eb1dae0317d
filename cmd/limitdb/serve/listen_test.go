package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"limitdb/config"
	"limitdb/transport"
)

// fakeListener records the addresses that are listened on. Addresses that begin with "taken" are in use,
// those that begin with "absent" are not on the machine, and the wildcard (":port") fails while another
// address with that port is in use.
type fakeListener struct{ open []string }

func (f *fakeListener) Listen(_, addr string, _ *transport.TLS) error {
	_, port, _ := strings.Cut(addr, ":")
	switch {
	case strings.HasPrefix(addr, "taken"), slices.Contains(f.open, addr),
		strings.HasPrefix(addr, ":") && slices.ContainsFunc(f.open, func(a string) bool { return strings.HasSuffix(a, ":"+port) }):
		return fmt.Errorf("%s: %w", addr, syscall.EADDRINUSE)
	case strings.HasPrefix(addr, "absent"):
		return fmt.Errorf("%s: %w", addr, syscall.EADDRNOTAVAIL)
	}
	f.open = append(f.open, addr)
	return nil
}

func (f *fakeListener) Unlisten(addr string) {
	f.open = slices.DeleteFunc(f.open, func(a string) bool { return a == addr })
}

func TestMovePorts(t *testing.T) {
	f := &fakeListener{}
	p := &ports{group: f}
	for _, step := range []struct {
		want string // addresses; a leading - means that the machine need not have it
		err  error
		open string
	}{
		{"a:1 b:1", nil, "a:1 b:1"},
		{"b:1 c:1", nil, "b:1 c:1"},
		{"b:2", nil, "b:2"},
		{"b:2 taken:2", syscall.EADDRINUSE, "b:2"},
		{"c:2 taken:2", syscall.EADDRINUSE, "b:2"},
		{"absent:2", syscall.EADDRNOTAVAIL, "b:2"},
		{"b:2 -absent:2", nil, "b:2"},
		{":2", nil, ":2"}, // :2 includes b:2
		{"d:3", nil, "d:3"},
		{"taken:3", syscall.EADDRINUSE, "d:3"},
	} {
		var want []endpoint
		for _, w := range strings.Fields(step.want) {
			addr, optional := strings.CutPrefix(w, "-")
			want = append(want, endpoint{addr: addr, optional: optional})
		}
		_, err := p.move(want)
		if !errors.Is(err, step.err) || (err == nil) != (step.err == nil) {
			t.Errorf("%s: %v, want %v", step.want, err, step.err)
		}
		slices.Sort(f.open)
		if got := strings.Join(f.open, " "); got != step.open {
			t.Fatalf("%s: %s is open, want %s", step.want, got, step.open)
		}
	}
}

func TestEndpoints(t *testing.T) {
	registry, set := config.New()
	for bind, want := range map[string]string{
		"127.0.0.1 ::1":       "[{127.0.0.1:7 false false} {[::1]:7 false false}]",
		"127.0.0.1 127.0.0.1": "[{127.0.0.1:7 false false}]",
		"*":                   "[{:7 false false}]",
		"-::1":                "[{[::1]:7 false true}]",
	} {
		if err := registry.Set(config.Pair{Name: "bind", Value: bind}, config.Pair{Name: "port", Value: "7"}); err != nil {
			t.Fatal(err)
		}
		got, err := (&process{set: set}).endpoints()
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %s", bind, got, err, want)
		}
	}
	found, err := resolve([]config.Addr{{Host: "localhost"}, {Host: ""}})
	if err != nil || len(found) < 2 || !strings.Contains(fmt.Sprint(found), "127.0.0.1") {
		t.Errorf("localhost: %v, %v", found, err)
	}
}

func TestRoomForClients(t *testing.T) {
	for _, c := range []struct {
		cur, max, highest uint64 // highest is the hard limit that the process may set
		want, fit         int64
		left              uint64
	}{
		{1024, 4096, 4096, 900, 900, 1024},
		{1024, 4096, 4096, 2000, 2000, 2032},
		{1024, 4096, 4096, 5000, 4064, 4096},
		{1024, 4096, 1 << 20, 5000, 5000, 5032}, // root
		{20, 20, 20, 10, 1, 20},
	} {
		now := syscall.Rlimit{Cur: c.cur, Max: c.max}
		d := descriptors{
			get: func() (syscall.Rlimit, error) { return now, nil },
			set: func(r syscall.Rlimit) error {
				if r.Max > c.highest || r.Cur > r.Max {
					return syscall.EPERM
				}
				now = r
				return nil
			},
		}
		if fit, err := d.room(c.want); err != nil || fit != c.fit || now.Cur != c.left {
			t.Errorf("%+v: %d, %v, limit %d", c, fit, err, now.Cur)
		}
	}
}

// CONFIG SET maxclients above the number of descriptors is refused, with the possible value.
func TestMaxClientsBeyondTheDescriptors(t *testing.T) {
	registry, set := config.New()
	p := &process{registry: registry, set: set, log: slog.New(slog.DiscardHandler)}
	p.fitMaxClients(descriptors{
		get: func() (syscall.Rlimit, error) { return syscall.Rlimit{Cur: 5000, Max: 5000}, nil },
		set: func(r syscall.Rlimit) error {
			if r.Max > 5000 || r.Cur > 5000 {
				return syscall.EPERM
			}
			return nil
		},
	})
	if got := set.MaxClients.Get(); got != 4968 {
		t.Errorf("maxclients is %d at the start", got)
	}
	err := registry.Set(config.Pair{Name: "maxclients", Value: "9999"}, config.Pair{Name: "hz", Value: "20"})
	if err == nil || !strings.Contains(err.Error(), "The operating system is not able to handle the specified number of clients, try with 4968") {
		t.Error(err)
	}
	if set.MaxClients.Get() != 4968 || set.Hz.Get() != 10 {
		t.Errorf("what was refused has changed: maxclients %d, hz %d", set.MaxClients.Get(), set.Hz.Get())
	}
	if err := registry.Set(config.Pair{Name: "maxclients", Value: "100"}); err != nil {
		t.Error(err)
	}
}

// Clients leave room for the connections of the HTTP port, where the system has it, and use it where it has not.
func TestDescriptorsOfTheHTTPPort(t *testing.T) {
	for _, c := range []struct {
		port, decisions string
		hard, cur       uint64
		clients         int64
	}{
		{"0", "no", 1 << 20, 10_032, 10_000},
		{"6380", "no", 1 << 20, 10_352, 10_000},
		{"6380", "yes", 1 << 20, 14_192, 10_000},
		{"6380", "yes", 10_100, 10_100, 10_000},
		{"6380", "yes", 5000, 5000, 4968},
	} {
		registry, set := config.New()
		if err := registry.Load(config.Sources{Args: []string{"--http-port", c.port, "--http-decisions", c.decisions}}); err != nil {
			t.Fatal(err)
		}
		now := syscall.Rlimit{Cur: 1024, Max: c.hard}
		(&process{registry: registry, set: set, log: slog.New(slog.DiscardHandler)}).fitMaxClients(descriptors{
			get: func() (syscall.Rlimit, error) { return now, nil },
			set: func(r syscall.Rlimit) error {
				if r.Max > c.hard {
					return syscall.EPERM
				}
				now = r
				return nil
			},
		})
		if got := set.MaxClients.Get(); now.Cur != c.cur || got != c.clients {
			t.Errorf("%+v: a limit of %d, and %d clients", c, now.Cur, got)
		}
	}
}

func TestBeyondThisMachine(t *testing.T) {
	got := beyondThisMachine([]net.Addr{
		&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv6loopback, Port: 2},
		&net.TCPAddr{IP: net.IPv4zero, Port: 3}, &net.TCPAddr{IP: net.IPv6unspecified, Port: 4}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 5},
	})
	if want := []string{"0.0.0.0:3", "[::]:4", "10.0.0.1:5"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
