package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLoadPrecedence(t *testing.T) {
	const file = "hz 1\nmaxclients 2\nMaxMemory 3mb\ntimeout 4\n"
	env := []string{"PATH=/bin", "LIMITDB_HZ=11", "LIMITDB_MAXCLIENTS=12", "LIMITDB_TCP_KEEPALIVE=13", "LIMITDB_BIND=* -::1"}
	args := []string{"limitdb.conf", "--hz", "21", "--slowlog-max-len=22", "--http-bind", "10.0.0.1", "-::1", "--logfile", "", "--slowlog-log-slower-than", "-1"}
	r, s := New()
	err := r.Load(Sources{Args: args, Environ: env, ReadFile: func(path string) ([]byte, error) {
		if path != "limitdb.conf" {
			t.Errorf("reads %q", path)
		}
		return []byte(file), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"hz": "21", "maxclients": "12", "maxmemory": "3145728", "timeout": "4", "tcp-keepalive": "13",
		"slowlog-max-len": "22", "bind": "* -::1", "http-bind": "10.0.0.1 -::1", "port": "6379",
		"logfile": "", "slowlog-log-slower-than": "-1",
	} {
		if got := get(t, r, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if s.Timeout.Get() != 4*time.Second || s.MaxMemory.Get() != 3<<20 {
		t.Error("the handles do not hold the values")
	}
	if !filepath.IsAbs(r.File()) || filepath.Base(r.File()) != "limitdb.conf" {
		t.Errorf("File() = %q", r.File())
	}
}

func TestLoadFileSyntax(t *testing.T) {
	const file = "\ufeff# a comment\r\n\r\n  hz\t7  \r\n   # another\nlogfile \"a \\\"b\\\" \\x41\\n\"\ndir '/it''s'\nunixsocket 'it\\'s \\n'\nloglevel \"debug\"\nhz 8\n" +
		"client-output-buffer-limit normal 1mb 0 0\nbind \"10.0.0.1 10.0.0.2\" 10.0.0.3\nsave \"\""
	r, s := New()
	err := r.Load(Sources{Args: []string{"-"}, Stdin: strings.NewReader(strings.Replace(file, "''", "\\'", 1))})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.LogFile.Get(), "a \"b\" A\n"; got != want {
		t.Errorf("logfile %q, want %q", got, want)
	}
	if got, want := s.Dir.Get(), "/it's"; got != want {
		t.Errorf("dir %q, want %q", got, want)
	}
	if got, want := s.UnixSocket.Get(), `it's \n`; got != want {
		t.Errorf("unixsocket %q, want %q", got, want)
	}
	if s.Hz.Get() != 8 || s.LogLevel.Get() != "debug" || s.ClientOutputBufferLimit.Get(NormalClient).Hard != 1<<20 || len(s.Bind.Get()) != 3 {
		t.Errorf("%v", r.Get("*"))
	}
	if r.File() != "" {
		t.Errorf("File() = %q for the standard input", r.File())
	}
}

// TestLoadErrors has the exact line for each kind of mistake. Cases with a file read it.
func TestLoadErrors(t *testing.T) {
	const secret = "s3cret"
	long := strings.Repeat("x", 300)
	cases := []struct {
		name string
		file string
		env  string
		args []string
		want string
	}{
		{name: "unknown directive", file: "# one\n\nmaxclient 5", want: `limitdb.conf:3: unknown directive "maxclient" (did you mean "maxclients"?)`},
		{name: "nothing like it", file: "remake-commands CONFIG x", want: `limitdb.conf:1: unknown directive "remake-commands"`},
		{name: "only the name is shown", file: "requirepas " + secret, want: `limitdb.conf:1: unknown directive "requirepas" (did you mean "requirepass"?)`},
		{name: "only the name is shown, with a sign", file: "requirepas=" + secret, want: `limitdb.conf:1: unknown directive "requirepas=..." (did you mean "requirepass"?)`},
		{name: "only the name is shown, with a colon", file: "requirepass: " + secret, want: `limitdb.conf:1: unknown directive "requirepass:..." (did you mean "requirepass"?)`},
		{name: "long", file: long + " 1", want: `limitdb.conf:1: unknown directive "` + long[:128] + `..."`},
		{name: "binary", file: "\x1b[1m\x00\xff 1", want: `limitdb.conf:1: unknown directive "\x1b[1m\x00\xff"`},
		{name: "range", file: "port 70000", want: `limitdb.conf:1: port "70000": argument must be between 0 and 65535 inclusive`},
		{name: "long value", file: "\nhz " + long, want: `limitdb.conf:2: hz "` + long[:128] + `...": argument couldn't be parsed into an integer`},
		{name: "empty name", file: `"" x`, want: `limitdb.conf:1: unknown directive ""`},
		{name: "upper case", file: "MAXCLIENT 1", want: `limitdb.conf:1: unknown directive "MAXCLIENT" (did you mean "maxclients"?)`},
		{name: "quotes", file: "hz 1\nlogfile \"abc", want: `limitdb.conf:2: unbalanced quotes`},
		{name: "text after a quote", file: `logfile "abc"d`, want: `limitdb.conf:1: unbalanced quotes`},
		{name: "no value", file: "hz", want: `limitdb.conf:1: hz: one value is expected, not 0 (quote a value that has spaces)`},
		{name: "two values", file: "dir /a b", want: `limitdb.conf:1: dir: one value is expected, not 2 (quote a value that has spaces)`},
		{name: "a line that another one overrides", file: "hz 0\nhz 5", want: `limitdb.conf:1: hz "0": argument must be between 1 and 500 inclusive`},
		{name: "address", file: "bind 127.0.0.1 local+host", want: `limitdb.conf:1: bind: "local+host" is neither an IP address nor the name of a host (* is all addresses)`},
		{name: "no address", file: `bind ""`, want: `limitdb.conf:1: bind "": at least one address is needed`},
		{name: "many addresses", file: "bind" + strings.Repeat(" 10.0.0.1", 17), want: `limitdb.conf:1: bind: at most 16 addresses can be given`},
		{name: "address of HTTP", file: "http-bind -*:80", want: `limitdb.conf:1: http-bind "-*:80": "*:80" is neither an IP address nor the name of a host (* is all addresses)`},
		{name: "shards", file: "shards 100", want: `limitdb.conf:1: shards "100": argument must be a power of two`},
		{name: "dir", file: `dir ""`, want: `limitdb.conf:1: dir "": argument must not be empty`},
		{name: "socket", file: "unixsocket " + long[:108], want: `limitdb.conf:1: unixsocket "` + long[:108] + `": the path of a unix socket has at most 107 bytes`},
		{name: "policy", file: "appendfsync often", want: `limitdb.conf:1: appendfsync "often": argument(s) must be one of the following: always, everysec, no`},
		{name: "snapshots", file: "save 3600 1 x", want: `limitdb.conf:1: save: argument must be pairs of seconds and changes, each 1 or more`},
		{name: "secret", file: "requirepass " + secret + `"x`, want: `limitdb.conf:1: unbalanced quotes`},
		{name: "secret in two words", file: "requirepass " + secret + " " + secret, want: `limitdb.conf:1: requirepass: one value is expected, not 2 (quote a value that has spaces)`},

		{name: "unknown variable", env: "LIMITDB_MAX_CLIENTS=5", want: `unknown environment variable "LIMITDB_MAX_CLIENTS" (did you mean "LIMITDB_MAXCLIENTS"?)`},
		{name: "lower case", env: "LIMITDB_maxclients=5", want: `unknown environment variable "LIMITDB_maxclients" (did you mean "LIMITDB_MAXCLIENTS"?)`},
		{name: "a dash", env: "LIMITDB_HTTP-PORT=5", want: `unknown environment variable "LIMITDB_HTTP-PORT" (did you mean "LIMITDB_HTTP_PORT"?)`},
		{name: "no name", env: "LIMITDB_=5", want: `unknown environment variable "LIMITDB_"`},
		{name: "value of a variable", env: "LIMITDB_HTTP_PORT=", want: `LIMITDB_HTTP_PORT "": argument couldn't be parsed into an integer`},
		{name: "secret variable", env: "LIMITDB_REQUIREPASS=(redacted)", want: `LIMITDB_REQUIREPASS: the argument is the text that CONFIG GET shows in place of the secret`},

		{name: "unknown option", args: []string{"--maxclient", "5"}, want: `unknown option "--maxclient" (did you mean "--maxclients"?)`},
		{name: "unknown option with a value", args: []string{"--requirepas=" + secret}, want: `unknown option "--requirepas" (did you mean "--requirepass"?)`},
		{name: "one dash", args: []string{"-p", "7000"}, want: `unexpected argument "-p": directives are written --directive value`},
		{name: "no option", args: []string{"--"}, want: `unknown option "--"`},
		{name: "value of an option", args: []string{"--Port", "x"}, want: `--port "x": argument couldn't be parsed into an integer`},
		{name: "option without value", args: []string{"--port", "--hz", "5"}, want: `--port: one value is expected, not 0 (quote a value that has spaces)`},
		{name: "file after an option", args: []string{"--port", "1", "limitdb.conf"}, want: `--port: one value is expected, not 2 (quote a value that has spaces)`},
		{name: "value after =", args: []string{"--port=1", "2"}, want: `--port: one value is expected, not 2 (quote a value that has spaces)`},

		{name: "no file", args: []string{"missing.conf"}, want: `missing.conf: file does not exist`},
		{name: "strange file", args: []string{"a\nb"}, want: `"a\nb": file does not exist`},
		{name: "empty file name", args: []string{""}, want: `"": file does not exist`},

		{name: "TLS without certificate", args: []string{"--tls-port", "1"}, want: `tls-port needs tls-cert-file and tls-key-file`},
		{name: "TLS without key", file: "tls-port 1\ntls-cert-file x", want: `tls-port needs tls-cert-file and tls-key-file`},
		{name: "TLS on the same port", file: "port 7\ntls-port 7", want: `port and tls-port are both 7`},
		{name: "TLS without authority", file: "tls-port 1\ntls-cert-file x\ntls-key-file x\ntls-auth-clients optional", want: `tls-auth-clients optional needs tls-ca-cert-file`},
		{name: "TLS as for Redis", file: "tls-port 1\ntls-cert-file x\ntls-key-file x\ntls-ca-cert-file x", want: `tls-ca-cert-file needs tls-auth-clients: set it to yes, optional or no`},
		{name: "a key too long", args: []string{"--max-key-len", "8193"}, want: `--max-key-len "8193": argument must be between 1 and 8192 inclusive`},

		{name: "password twice", file: "requirepass " + secret + "\nrequirepass-file pw", want: `requirepass and requirepass-file are both given: keep one of them`},
		{name: "no password file", file: "requirepass-file missing", want: `requirepass-file "missing": file does not exist`},
		{name: "empty password file", file: "requirepass-file empty", want: `requirepass-file "empty": the file is empty`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{"empty": "\r\n", "pw": secret}
			args := c.args
			if c.file != "" {
				files["limitdb.conf"] = c.file
				args = append([]string{"limitdb.conf"}, args...)
			}
			r, s := New()
			before := r.Get("*")
			err := r.Load(Sources{Args: args, Environ: []string{c.env}, ReadFile: readMap(files)})
			if err == nil || err.Error() != c.want {
				t.Fatalf("\n got %v\nwant %s", err, c.want)
			}
			for i, p := range r.Get("*") {
				if p != before[i] {
					t.Errorf("%s has become %q", p.Name, p.Value)
				}
			}
			if s.Port.Get() != 6379 || s.Hz.Get() != 10 || s.RequirePass.Get() != "" {
				t.Error("a handle has changed")
			}
		})
	}
}

func TestLoadTLS(t *testing.T) {
	const pair = "tls-port 1\ntls-cert-file x\ntls-key-file x\n"
	for _, file := range []string{
		pair,
		pair + "tls-auth-clients no",
		pair + "tls-ca-cert-file x\ntls-auth-clients no",
		pair + "tls-ca-cert-file x\ntls-auth-clients optional",
		pair + "tls-ca-cert-file x\ntls-auth-clients yes",
		"tls-ca-cert-file x", // not in use
	} {
		load(t, file)
	}
}

// readMap returns a ReadFile for files in memory.
func readMap(files map[string]string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		data, ok := files[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(data), nil
	}
}

// TestLoadInKubernetes has the variables that a service called limitdb puts into each container of its
// namespace, including our own.
func TestLoadInKubernetes(t *testing.T) {
	env := []string{
		"LIMITDB_SERVICE_HOST=10.1.2.3", "LIMITDB_SERVICE_PORT=6379", "LIMITDB_SERVICE_PORT_RESP=6379",
		"LIMITDB_PORT=tcp://10.1.2.3:6379", "LIMITDB_PORT_6379_TCP=tcp://10.1.2.3:6379", "LIMITDB_PORT_6379_TCP_PROTO=tcp",
		"LIMITDB_PORT_6379_TCP_PORT=6379", "LIMITDB_PORT_6379_TCP_ADDR=10.1.2.3",
		"LIMITDB_HTTP_SERVICE_HOST=10.1.2.3", "LIMITDB_HTTP_PORT=tcp://10.1.2.3:80", "LIMITDB_HTTP_PORT_80_TCP=tcp://10.1.2.3:80",
	}
	r, s := New()
	if err := r.Load(Sources{Environ: env}); err != nil {
		t.Fatal(err)
	}
	if s.Port.Get() != 6379 || s.HTTPPort.Get() != 6380 {
		t.Error("a service's address is taken for a port")
	}
	if err := r.Load(Sources{Environ: []string{"LIMITDB_PORT=7000"}}); err != nil || s.Port.Get() != 7000 {
		t.Errorf("port %d, %v", s.Port.Get(), err)
	}
	for _, e := range []string{"LIMITDB_SERVICE=x", "LIMITDB_SERVICE_HOST_X=x", "LIMITDB_PORT_X_TCP=1", "LIMITDB_PORT_1_IP=1", "LIMITDB_PORT=ftp://x"} {
		r, _ := New()
		if err := r.Load(Sources{Environ: []string{e}}); err == nil {
			t.Errorf("%s is accepted", e)
		}
	}
}

func TestPasswordFile(t *testing.T) {
	files := map[string]string{"a": "first\n", "b": "second\r\n", "c": " kept \n\n", "d": "bare\r"}
	cases := []struct {
		file, env string
		args      []string
		want      string
	}{
		{file: "requirepass-file a", want: "first"},
		{file: "requirepass-file b", want: "second"},
		{file: "requirepass-file c", want: " kept \n"},
		{file: "requirepass-file d", want: "bare\r"},
		{file: "requirepass-file a\nrequirepass-file ''\nrequirepass x", want: "x"},
		{file: "requirepass-file a", env: "LIMITDB_REQUIREPASS=x", want: "x"},
		{file: "requirepass x", env: "LIMITDB_REQUIREPASS_FILE=b", want: "second"},
		{env: "LIMITDB_REQUIREPASS=x", args: []string{"--requirepass-file", "b"}, want: "second"},
		{env: "LIMITDB_REQUIREPASS_FILE=a", args: []string{"--requirepass=--x"}, want: "--x"},
		{env: "LIMITDB_REQUIREPASS=x=y", want: "x=y"},
	}
	for _, c := range cases {
		files["limitdb.conf"] = c.file
		r, s := New()
		err := r.Load(Sources{Args: append([]string{"limitdb.conf"}, c.args...), Environ: []string{c.env}, ReadFile: readMap(files)})
		if err != nil || s.RequirePass.Get() != c.want {
			t.Errorf("%+v: %q, %v", c, s.RequirePass.Get(), err)
		}
		if got := get(t, r, "requirepass"); got != "(redacted)" {
			t.Errorf("%+v: shown as %q", c, got)
		}
	}
}

func TestReloadSecrets(t *testing.T) {
	files := map[string]string{"pw": "first\n"}
	r, s := New()
	if err := r.ReloadSecrets(); err != nil {
		t.Fatalf("before Load: %v", err)
	}
	if err := r.Load(Sources{Args: []string{"--requirepass-file", "pw"}, ReadFile: readMap(files)}); err != nil {
		t.Fatal(err)
	}
	hooks := 0
	refuse := false
	r.OnChange(func() error {
		hooks++
		if refuse && s.RequirePass.Get() == "third" {
			return errors.New("no")
		}
		return nil
	}, s.RequirePass)

	err := r.Set(Pair{"requirepass", "other"})
	if want := "CONFIG SET failed (possibly related to argument 'requirepass') - it is read from requirepass-file: change that file and reload"; err == nil || err.Error() != want {
		t.Errorf("Set: %v", err)
	}
	if err := r.ReloadSecrets(); err != nil || hooks != 0 {
		t.Errorf("nothing new: %v, %d hooks", err, hooks)
	}
	files["pw"] = "second\n"
	if err := r.ReloadSecrets(); err != nil || hooks != 1 || s.RequirePass.Get() != "second" {
		t.Errorf("a new password: %q, %v, %d hooks", s.RequirePass.Get(), err, hooks)
	}
	files["pw"], refuse = "third", true
	if err := r.ReloadSecrets(); err == nil || err.Error() != "requirepass: no" || s.RequirePass.Get() != "second" {
		t.Errorf("a hook refuses: %q, %v", s.RequirePass.Get(), err)
	}
	delete(files, "pw")
	if err := r.ReloadSecrets(); err == nil || s.RequirePass.Get() != "second" {
		t.Errorf("the file is gone: %q, %v", s.RequirePass.Get(), err)
	}
}

func TestReadFileIsBounded(t *testing.T) {
	if _, err := readFile("/dev/zero"); err == nil || err.Error() != "longer than 1mb" {
		t.Errorf("/dev/zero: %v", err)
	}
	dir := t.TempDir()
	r, _ := New()
	err := r.Load(Sources{Args: []string{dir}})
	if err == nil || err.Error() != dir+": is a directory" {
		t.Errorf("a folder: %v", err)
	}
	path := filepath.Join(dir, "exact")
	if err := os.WriteFile(path, make([]byte, maxFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := readFile(path); err != nil || len(data) != maxFile {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestAddrs(t *testing.T) {
	_, s := load(t, "bind * -::1 10.0.0.1")
	want := []Addr{{"", false}, {"::1", true}, {"10.0.0.1", false}}
	check := func(got, want []Addr) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%v, want %v", got, want)
			}
		}
	}
	check(s.Addrs(), want)
	check(s.HTTPAddrs(), want)
	_, s = load(t, "http-bind -127.0.0.1")
	check(s.HTTPAddrs(), []Addr{{"127.0.0.1", true}})
	check(s.Addrs(), []Addr{{"127.0.0.1", false}, {"::1", false}})
}

// The default line of Redis' own configuration is accepted.
func TestBindOfRedis(t *testing.T) {
	for _, test := range []struct {
		bind string
		want []Addr
	}{
		{"* -::*", []Addr{{Host: ""}}},
		{"-::*", []Addr{{Host: "::", Optional: true}}},
		{"127.0.0.1 -::1", []Addr{{Host: "127.0.0.1"}, {Host: "::1", Optional: true}}},
	} {
		r, s := New()
		if err := r.Load(Sources{Args: append([]string{"--bind"}, strings.Fields(test.bind)...)}); err != nil {
			t.Errorf("%s: %v", test.bind, err)
			continue
		}
		if got := s.Addrs(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.bind, got, test.want)
		}
	}
}
