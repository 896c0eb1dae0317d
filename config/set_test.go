package config

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// load returns a registry that has loaded a file with this text, called limitdb.conf, and these options.
func load(t *testing.T, file string, args ...string) (*Registry, *Settings) {
	t.Helper()
	r, s := New()
	err := r.Load(Sources{
		Args:     append([]string{"limitdb.conf"}, args...),
		ReadFile: func(string) ([]byte, error) { return []byte(file), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, s
}

// get returns the one value that CONFIG GET shows for name.
func get(t *testing.T, r *Registry, name string) string {
	t.Helper()
	pairs := r.Get(name)
	if len(pairs) != 1 {
		t.Fatalf("Get(%q) = %v", name, pairs)
	}
	return pairs[0].Value
}

func TestGet(t *testing.T) {
	r, _ := New()
	cases := []struct {
		patterns []string
		want     []Pair
	}{
		{[]string{"maxclients"}, []Pair{{"maxclients", "10000"}}},
		{[]string{"MaxClients"}, []Pair{{"maxclients", "10000"}}},
		{[]string{"nothing"}, nil},
		{nil, nil},
		{[]string{""}, nil},
		{[]string{"slowlog*"}, []Pair{{"slowlog-log-slower-than", "10000"}, {"slowlog-max-len", "128"}}},
		{[]string{"*sl?WLOG-max*", "slowlog-*", "appendonly"}, []Pair{{"appendonly", "yes"}, {"slowlog-log-slower-than", "10000"}, {"slowlog-max-len", "128"}}},
		{[]string{"save"}, []Pair{{"save", ""}}},
		{[]string{"bind"}, []Pair{{"bind", "127.0.0.1 ::1"}}},
		{[]string{"databases"}, []Pair{{"databases", "16"}}},
		{[]string{"proto-max-bulk-len"}, []Pair{{"proto-max-bulk-len", "65536"}}},
		{[]string{"client-output-buffer-limit"}, []Pair{{"client-output-buffer-limit", "normal 67108864 0 0 slave 67108864 0 0 pubsub 67108864 0 0"}}},
		{[]string{"requirepass"}, []Pair{{"requirepass", ""}}},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.want, r.Get(c.patterns...)); diff != "" {
			t.Errorf("%q: %s", c.patterns, diff)
		}
	}
	if n := len(r.Get("*")); n != len(r.Reference()) {
		t.Errorf("* matches %d of %d directives", n, len(r.Reference()))
	}
}

func TestSetErrors(t *testing.T) {
	long := strings.Repeat("x", 1000)
	cases := []struct {
		pairs []Pair
		want  string
	}{
		{[]Pair{{"nothing", "1"}}, "Unknown option or number of arguments for CONFIG SET - 'nothing'"},
		{[]Pair{{"a\r\nb", "1"}}, `Unknown option or number of arguments for CONFIG SET - 'a\r\nb'`},
		{[]Pair{{long, "1"}}, "Unknown option or number of arguments for CONFIG SET - '" + long[:128] + "...'"},
		{[]Pair{{"hz", "5"}, {"nothing", "1"}}, "Unknown option or number of arguments for CONFIG SET - 'nothing'"},
		{[]Pair{{"tls-port", "1"}}, "CONFIG SET failed (possibly related to argument 'tls-port') - can't set immutable config"},
		{[]Pair{{"TLS-PORT", "x"}}, "CONFIG SET failed (possibly related to argument 'tls-port') - can't set immutable config"},
		{[]Pair{{"hz", "1"}, {"HZ", "2"}}, "CONFIG SET failed (possibly related to argument 'hz') - duplicate parameter"},
		{[]Pair{{"hz", "0"}}, "CONFIG SET failed (possibly related to argument 'hz') - argument must be between 1 and 500 inclusive"},
		{[]Pair{{"timeout", "1"}, {"hz", "fast"}}, "CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an integer"},
		{[]Pair{{"maxmemory", "much"}}, "CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value"},
		{[]Pair{{"latency-tracking", "maybe"}}, "CONFIG SET failed (possibly related to argument 'latency-tracking') - argument must be 'yes' or 'no'"},
		{[]Pair{{"loglevel", "loud"}}, "CONFIG SET failed (possibly related to argument 'loglevel') - argument(s) must be one of the following: debug, verbose, notice, warning"},
		{[]Pair{{"save", "900 1 60"}}, "CONFIG SET failed (possibly related to argument 'save') - argument must be pairs of seconds and changes, each 1 or more"},
		{[]Pair{{"save", "0 1"}}, "CONFIG SET failed (possibly related to argument 'save') - argument must be pairs of seconds and changes, each 1 or more"},
		{[]Pair{{"recovery-mode", "conservative"}}, "CONFIG SET failed (possibly related to argument 'recovery-mode') - can't set immutable config"},
		{[]Pair{{"requirepass", "(redacted)"}}, "CONFIG SET failed (possibly related to argument 'requirepass') - the argument is the text that CONFIG GET shows in place of the secret"},
		{[]Pair{{"hz", "20"}, {"proto-max-bulk-len", "2mb"}}, "CONFIG SET failed (possibly related to argument 'hz') - proto-max-bulk-len 2097152 is more than client-query-buffer-limit 1048576"},
	}
	for _, c := range cases {
		r, s := New()
		r.OnChange(func() error { t.Errorf("%v: a hook runs", c.pairs); return nil }, s.Hz, s.Timeout)
		before := r.Get("*")
		err := r.Set(c.pairs...)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v:\n got %v\nwant %s", c.pairs, err, c.want)
		}
		if diff := cmp.Diff(before, r.Get("*")); diff != "" {
			t.Errorf("%v: something has changed: %s", c.pairs, diff)
		}
		if s.Hz.Get() != 10 || s.Timeout.Get() != 0 || s.ProtoMaxBulkLen.Get() != 64<<10 {
			t.Errorf("%v: a handle has changed", c.pairs)
		}
	}
}

func TestSet(t *testing.T) {
	r, s := New()
	if err := r.Set(Pair{"HZ", "100"}, Pair{"client-query-buffer-limit", "4mb"}, Pair{"proto-max-bulk-len", "2mb"}, Pair{"save", ""}, Pair{"appendonly", "no"}); err != nil {
		t.Fatal(err)
	}
	if s.Hz.Get() != 100 || s.ClientQueryBufferLimit.Get() != 4<<20 || s.ProtoMaxBulkLen.Get() != 2<<20 {
		t.Error("handles do not hold the new values")
	}
	if got := get(t, r, "hz"); got != "100" {
		t.Errorf("hz is shown as %s", got)
	}
	if err := r.Set(); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreHidden(t *testing.T) {
	const secret = "s3cret"
	r, s := New()
	if err := r.Set(Pair{"requirepass", secret}); err != nil {
		t.Fatal(err)
	}
	if s.RequirePass.Get() != secret {
		t.Error("the handle does not hold the password")
	}
	if got := get(t, r, "requirepass"); got != "(redacted)" {
		t.Errorf("shown as %q", got)
	}
	err := r.Set(Pair{"requirepass", secret}, Pair{"hz", "0"})
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v", err)
	}
}

func TestHooks(t *testing.T) {
	r, s := New()
	var calls []string
	call := func(name string) func() error {
		return func() error { calls = append(calls, name); return nil }
	}
	r.OnChange(call("clients or hz"), s.MaxClients, s.Hz)
	r.OnChange(call("hz"), s.Hz)
	r.OnChange(call("level"), s.LogLevel)

	steps := []struct {
		pairs []Pair
		want  []string
	}{
		{[]Pair{{"hz", "20"}, {"maxclients", "50"}}, []string{"clients or hz", "hz"}},
		{[]Pair{{"hz", "20"}}, nil}, // the same as before
		{[]Pair{{"maxclients", "51"}, {"hz", "20"}}, []string{"clients or hz"}},
		{[]Pair{{"loglevel", "debug"}, {"timeout", "1"}}, []string{"level"}},
	}
	for _, step := range steps {
		calls = nil
		if err := r.Set(step.pairs...); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(calls, step.want) {
			t.Errorf("%v: hooks %q, want %q", step.pairs, calls, step.want)
		}
	}
}

func TestHookFails(t *testing.T) {
	r, s := New()
	var seen []int64
	r.OnChange(func() error { seen = append(seen, s.MaxClients.Get()); return nil }, s.MaxClients)
	r.OnChange(func() error {
		seen = append(seen, -s.Hz.Get())
		if s.Hz.Get() == 20 {
			return errors.New("too fast")
		}
		return nil
	}, s.Hz)
	r.OnChange(func() error { t.Error("a hook after the failed one runs"); return nil }, s.Timeout)

	before := r.Get("*")
	err := r.Set(Pair{"maxclients", "50"}, Pair{"timeout", "7"}, Pair{"hz", "20"})
	const want = "CONFIG SET failed (possibly related to argument 'hz') - too fast"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if diff := cmp.Diff(before, r.Get("*")); diff != "" {
		t.Error(diff)
	}
	if s.MaxClients.Get() != 10000 || s.Hz.Get() != 10 || s.Timeout.Get() != 0 {
		t.Error("the handles are not rolled back")
	}
	// First the new values, then the old ones again.
	if want := []int64{50, -20, 10000, -10}; !slices.Equal(seen, want) {
		t.Errorf("hooks have seen %v, want %v", seen, want)
	}
}

// TestReadWhileSet is useful with -race: readers read handles while they change, and see only values that
// were set.
func TestReadWhileSet(t *testing.T) {
	r, s := New()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if n := s.Hz.Get(); n != 10 && n != 20 {
					t.Errorf("hz %d", n)
					return
				}
				if l := s.LogLevel.Get(); l != "notice" && l != "debug" {
					t.Errorf("loglevel %q", l)
					return
				}
				_ = s.ClientOutputBufferLimit.Get(PubSubClient).Hard + s.MaxMemory.Get() + int64(s.Timeout.Get())
				_ = len(s.Save.Get()) + len(s.RequirePass.Get())
				_ = s.LatencyTracking.Get()
				_ = r.Get("hz")
			}
		})
	}
	values := [][]Pair{
		{{"hz", "20"}, {"loglevel", "debug"}, {"client-output-buffer-limit", "1mb"}, {"maxmemory", "1gb"}, {"timeout", "5"}, {"requirepass", "a"}, {"latency-tracking", "no"}},
		{{"hz", "10"}, {"loglevel", "notice"}, {"client-output-buffer-limit", "2mb"}, {"maxmemory", "0"}, {"timeout", "0"}, {"requirepass", ""}, {"latency-tracking", "yes"}},
	}
	for i := range 500 {
		if err := r.Set(values[i%2]...); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}
