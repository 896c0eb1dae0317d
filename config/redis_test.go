package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A stock redis.conf starts a server, which says what it ignores.
func TestStockRedisConf(t *testing.T) {
	r, s := New()
	if err := r.Load(Sources{Args: []string{"testdata/redis70.conf"}}); err != nil {
		t.Fatal(err)
	}
	warnings := r.Warnings()
	var names []string
	for _, w := range warnings {
		if strings.ContainsAny(w, "\r\n") {
			t.Errorf("more than a line: %q", w)
		}
		names = append(names, strings.Fields(w)[1])
	}
	if len(warnings) != 4 ||
		!strings.HasPrefix(warnings[0], "testdata/redis70.conf:9: daemonize is ignored: limitdb stays in the foreground") ||
		!strings.HasPrefix(warnings[1], "testdata/redis70.conf:10: pidfile is ignored: ") ||
		!strings.HasPrefix(warnings[2], "directives of Redis that have no meaning here are ignored: always-show-logo set-proc-title proc-title-template ") ||
		!strings.HasPrefix(warnings[3], "client-output-buffer-limit has no hard limit for normal clients") {
		t.Errorf("%q: %q", names, warnings)
	}
	if got := s.ClientOutputBufferLimit.Get(PubSubClient); got != (BufferLimit{32 << 20, 8 << 20, time.Minute}) {
		t.Errorf("pubsub: %+v", got)
	}
	if got := get(t, r, "client-output-buffer-limit"); got != "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60" {
		t.Errorf("the lines of the classes make %q", got)
	}
	if s.RewriteMinSize.Get() != 64<<20 {
		t.Error("a directive behind one that is ignored was not read")
	}
}

func TestForeignDirectives(t *testing.T) {
	for _, c := range []struct {
		file string
		err  string // the start fails
		warn string // the start continues with this warning; "" means none
	}{
		{file: "rename-command CONFIG \"\"", err: "limitdb.conf:1: rename-command: limitdb cannot rename or hide commands"},
		{file: "hz 20\nreplicaof 10.0.0.1 6379", err: "limitdb.conf:2: replicaof: nodes that hold the same state are set up with raft-addr"},
		{file: "slaveof no one"},
		{file: "cluster-enabled yes", err: "limitdb.conf:1: cluster-enabled: limitdb does not spread keys over nodes"},
		{file: "cluster-enabled no"},
		{file: "user alice on >secret ~* +@all\nuser bob on"},
		{file: "user alice on\naclfile users.acl", err: "aclfile and user are both given"},
		{file: "user alice \">a secret\"", err: "limitdb.conf:1: user: a word must not contain a space"},
		{file: "aclfile \"\""},
		{file: "min-replicas-to-write 1", err: "limitdb.conf:1: min-replicas-to-write: with raft-addr a reply waits for a majority"},
		{file: "DAEMONIZE YES", warn: "limitdb.conf:1: daemonize is ignored: limitdb stays in the foreground"},
		{file: "daemonize no"},
		{file: "loadmodule /usr/lib/libredis_cell.so", warn: "limitdb.conf:1: loadmodule is ignored: limitdb loads no modules; CL.THROTTLE is built in"},
		{file: "notify-keyspace-events Ex", warn: "limitdb.conf:1: notify-keyspace-events is ignored: limitdb publishes no events"},
		{file: "io-threads 4", warn: "limitdb.conf:1: io-threads is ignored: loops is the number"},
		{file: "cluster-node-timeout 15000\nlazyfree-lazy-expire yes\ncluster-node-timeout 1", warn: "directives of Redis that have no meaning here are ignored: cluster-node-timeout lazyfree-lazy-expire"},
		{file: "nonsense 1", err: `limitdb.conf:1: unknown directive "nonsense"`},
		{file: "maxcleints 1", err: `limitdb.conf:1: unknown directive "maxcleints" (did you mean "maxclients"?)`},
	} {
		r, _ := New()
		err := r.Load(Sources{Args: []string{"limitdb.conf"}, ReadFile: readMap(map[string]string{"limitdb.conf": c.file})})
		warned := strings.Join(r.Warnings(), "\n")
		switch {
		case c.err != "":
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s:\n got %v\nwant %s", c.file, err, c.err)
			}
		case err != nil, c.warn == "" && warned != "", !strings.HasPrefix(warned, c.warn):
			t.Errorf("%s: %v\n got %s\nwant %s", c.file, err, warned, c.warn)
		}
	}
	// None of limitdb's own directives is among them.
	r, _ := New()
	for _, e := range r.Reference() {
		if _, is := foreign(e.Name); is {
			t.Errorf("%s is said to have no meaning", e.Name)
		}
	}
	// The same on the command line and in CONFIG SET.
	if err := r.Load(Sources{Args: []string{"--daemonize", "yes", "--hz", "20", "--lazyfree-lazy-expire=no"}}); err != nil || len(r.Warnings()) != 2 {
		t.Errorf("%v, %q", err, r.Warnings())
	}
	if err := r.Set(Pair{"notify-keyspace-events", "Ex"}); err == nil || err.Error() != "Unknown option or number of arguments for CONFIG SET - 'notify-keyspace-events' (limitdb publishes no events)" {
		t.Error(err)
	}
}

func TestPasswordsOnTheCommandLine(t *testing.T) {
	r, _ := New()
	if err := r.Load(Sources{Args: []string{"--requirepass", "s3cret", "--http-password=t0ken"}, Environ: []string{"LIMITDB_TIMEOUT=1"}}); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(r.Warnings(), "\n")
	if len(r.Warnings()) != 2 || !strings.Contains(all, "--requirepass is on the command line") || !strings.Contains(all, "requirepass-file") ||
		!strings.Contains(all, "LIMITDB_HTTP_PASSWORD") || strings.Contains(all, "s3cret") || strings.Contains(all, "t0ken") {
		t.Errorf("%q", all)
	}
	r, _ = New()
	if err := r.Load(Sources{Environ: []string{"LIMITDB_REQUIREPASS=s3cret"}}); err != nil || len(r.Warnings()) != 0 {
		t.Errorf("%v, %q", err, r.Warnings())
	}
}

// Lines of save add up, as in Redis. An empty line starts over, and a stronger source replaces a weaker one.
func TestSaveLinesAddUp(t *testing.T) {
	for _, c := range []struct {
		file string
		args []string
		want string
	}{
		{file: "save 3600 1\nsave 300 100\nsave 60 10000\n", want: "3600 1 300 100 60 10000"},
		{file: "save 3600 1\nsave \"\"\n", want: ""},
		{file: "save 3600 1\nsave \"\"\nsave 5 6 7 8", want: "5 6 7 8"},
		{file: "save 3600 1\n", args: []string{"--save", "5", "6", "--save", "7 8"}, want: "5 6 7 8"},
		{file: "save 3600 1\n", args: []string{"--save", ""}, want: ""},
	} {
		r, _ := load(t, c.file, c.args...)
		if got := get(t, r, "save"); got != c.want {
			t.Errorf("%q %q: %q, want %q", c.file, c.args, got, c.want)
		}
		if err := r.Set(Pair{"save", "9 9"}); err != nil || get(t, r, "save") != "9 9" {
			t.Errorf("CONFIG SET save adds up: %v, %q", err, get(t, r, "save"))
		}
		again, _ := load(t, string(r.rewrite([]byte(c.file))))
		if got := get(t, again, "save"); got != "9 9" {
			t.Errorf("%q: rewritten, it reads %q", c.file, got)
		}
	}
}

// CONFIG SET changes only the classes that it names.
func TestSetOutputLimitOfOneClass(t *testing.T) {
	r, _ := New()
	for _, step := range []struct{ set, want string }{
		{"1mb", "normal 1048576 0 0 slave 1048576 0 0 pubsub 1048576 0 0"},
		{"pubsub 32mb 8mb 60", "normal 1048576 0 0 slave 1048576 0 0 pubsub 33554432 8388608 60"},
		{"normal 0 0 0 slave 0 1kb 5", "normal 0 0 0 slave 0 1024 5 pubsub 33554432 8388608 60"},
	} {
		if err := r.Set(Pair{"client-output-buffer-limit", step.set}); err != nil || get(t, r, "client-output-buffer-limit") != step.want {
			t.Errorf("%s: %v, %s", step.set, err, get(t, r, "client-output-buffer-limit"))
		}
	}
	const file = "client-output-buffer-limit normal 5mb 0 0\nhz 20\nclient-output-buffer-limit pubsub 6mb 0 0\n"
	got := string(r.rewrite([]byte(file)))
	if want := "hz 10\nclient-output-buffer-limit normal 0 0 0 replica 0 1kb 5 pubsub 32mb 8mb 60\n"; got != want {
		t.Errorf("rewritten: %q", got)
	}
}

// A password may have any bytes, also in the file, and CONFIG REWRITE keeps them.
func TestPasswordOfAnyBytes(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	passwords := []string{string(every), "\x00", "a\u00a0", "\u0085", "# no comment", "'", `"`, `\`, " ", "\xff\xfe", "\ufeff", "a\r\nb\n"}
	for _, b := range every {
		passwords = append(passwords, string(rune(b)), string(b), "x"+string([]byte{b}), string([]byte{b})+"x")
	}
	for _, p := range passwords {
		if p == "" {
			continue
		}
		r, _ := load(t, "hz 20\n")
		if err := r.Set(Pair{"requirepass", p}); err != nil {
			t.Errorf("%q: %v", p, err)
			continue
		}
		file := r.rewrite([]byte("hz 20\n"))
		_, s := load(t, string(file))
		if got := s.RequirePass.Get(); got != p {
			t.Errorf("%q reads back as %q from %q", p, got, file)
		}
	}
	// A Unicode space at the end of a line is part of the password.
	if _, s := load(t, "requirepass a\u00a0\n"); s.RequirePass.Get() != "a\u00a0" {
		t.Errorf("%q", s.RequirePass.Get())
	}
}

func TestBindTakesHostNames(t *testing.T) {
	r, s := New()
	for bind, ok := range map[string]bool{
		"localhost": true, "-db_1.internal.": true, "xn--bcher-kva.example": true, "127.0.0.1 localhost *": true,
		"127.0.0": false, "127.0.0.256": false, "a..b": false, "-": false, "a b- c": false, "host:6379": false, "10.0.0.1/8": false,
		strings.Repeat("a", 64): false, strings.Repeat("a.", 127) + "a": false,
	} {
		if err := r.Set(Pair{"bind", bind}); (err == nil) != ok {
			t.Errorf("%q: %v", bind, err)
		}
	}
	if err := r.Set(Pair{"bind", "-db.internal ::1"}); err != nil || len(s.Addrs()) != 2 || s.Addrs()[0] != (Addr{Host: "db.internal", Optional: true}) {
		t.Errorf("%v, %+v", err, s.Addrs())
	}
}

func TestShutdownWords(t *testing.T) {
	r, s := New()
	for words, ok := range map[string]bool{
		"default": true, "NOW": true, "now nosave force": true, "save now": true,
		"": false, "save nosave": false, "default now": false, "later": false,
	} {
		if err := r.Set(Pair{"shutdown-on-sigterm", words}); (err == nil) != ok {
			t.Errorf("%q: %v", words, err)
		}
	}
	if err := r.Set(Pair{"shutdown-on-sigint", "Now Save"}); err != nil || OnSignal(s.ShutdownOnSIGINT) != (Shutdown{Now: true, Save: true}) {
		t.Errorf("%v, %+v", err, OnSignal(s.ShutdownOnSIGINT))
	}
}

// write makes files in a folder of the test's own.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInclude(t *testing.T) {
	deep := map[string]string{"main.conf": "include 1.conf"}
	for i := range maxDepth + 2 {
		deep[fmt.Sprintf("%d.conf", i+1)] = fmt.Sprintf("include %d.conf\n", i+2)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		hz    string
		err   string // with DIR in place of the folder
	}{
		{name: "in its place", files: map[string]string{"main.conf": "hz 1\ninclude a.conf\n", "a.conf": "hz 2\n"}, hz: "2"},
		{name: "the last counts", files: map[string]string{"main.conf": "include a.conf\nhz 1\n", "a.conf": "hz 2\n"}, hz: "1"},
		{name: "relative to the file", files: map[string]string{"main.conf": "include sub/a.conf\n", "sub/a.conf": "include b.conf\n", "sub/b.conf": "hz 3\n"}, hz: "3"},
		{name: "a pattern in order", files: map[string]string{"main.conf": "include \"conf.d/*.conf\"\n", "conf.d/10.conf": "hz 4\n", "conf.d/20.conf": "hz 5\n", "conf.d/30.txt": "nonsense"}, hz: "5"},
		{name: "a pattern of nothing", files: map[string]string{"main.conf": "hz 6\ninclude conf.d/*.conf\n"}, hz: "6"},
		{name: "twice is no cycle", files: map[string]string{"main.conf": "include a.conf\ninclude a.conf\n", "a.conf": "hz 7\n"}, hz: "7"},
		{name: "not there", files: map[string]string{"main.conf": "hz 1\ninclude none.conf\n"}, err: `DIR/main.conf:2: include "none.conf": no such file or directory`},
		{name: "no path", files: map[string]string{"main.conf": "include\n"}, err: "DIR/main.conf:1: include: one value is expected, not 0 (quote a value that has spaces)"},
		{name: "a bad pattern", files: map[string]string{"main.conf": "include [\n"}, err: `DIR/main.conf:1: include "[": syntax error in pattern`},
		{name: "a mistake there", files: map[string]string{"main.conf": "include a.conf\n", "a.conf": "\nhz 0\n"}, err: `DIR/a.conf:2: hz "0": argument must be between 1 and 500 inclusive`},
		{name: "itself", files: map[string]string{"main.conf": "include main.conf\n"}, err: `DIR/main.conf:1: include "main.conf": DIR/main.conf includes itself`},
		{name: "a cycle", files: map[string]string{"main.conf": "include sub/a.conf\n", "sub/a.conf": "include ../main.conf\n"}, err: `DIR/sub/a.conf:1: include "../main.conf": DIR/main.conf includes itself`},
		{name: "too deep", files: deep, err: "files include one another more than 16 deep"},
		{name: "too many", files: map[string]string{"main.conf": strings.Repeat("include a.conf\n", maxFiles+1), "a.conf": ""}, err: "more than 1000 files are included"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := write(t, c.files)
			r, _ := New()
			err := r.Load(Sources{Args: []string{filepath.Join(dir, "main.conf")}})
			if c.err != "" {
				if want := strings.ReplaceAll(c.err, "DIR", dir); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf(" got %v\nwant %s", err, want)
				}
				return
			}
			if err != nil || get(t, r, "hz") != c.hz {
				t.Errorf("%v, hz %s, want %s", err, get(t, r, "hz"), c.hz)
			}
		})
	}
}

// CONFIG REWRITE changes the file itself, never an included file, and what it writes takes precedence over
// them.
func TestRewriteWithIncludes(t *testing.T) {
	for _, c := range []struct {
		name, main, included string
		set                  []Pair
		want                 string
	}{
		{name: "nothing to do", main: "include a.conf\n", included: "hz 20\nsave 1 1\nsave 2 2\n", want: "include a.conf\n"},
		{name: "a line before", main: "hz 5\ninclude a.conf\n", included: "hz 20\n", set: []Pair{{"hz", "30"}}, want: "hz 5\ninclude a.conf\n" + marker + "\nhz 30\n"},
		{name: "a line after", main: "include a.conf\nhz 5\n", included: "hz 20\n", set: []Pair{{"hz", "30"}}, want: "include a.conf\nhz 30\n"},
		{name: "back to the default", main: "include a.conf\n", included: "hz 20\n", set: []Pair{{"hz", "10"}}, want: "include a.conf\n" + marker + "\nhz 10\n"},
		{name: "save", main: "save 1 1\ninclude a.conf\n", included: "save 2 2\n", set: []Pair{{"save", "3 3"}}, want: "include a.conf\n" + marker + "\nsave \"\"\nsave 3 3\n"},
		{name: "save after", main: "include a.conf\nsave 1 1\n", included: "save 2 2\n", set: []Pair{{"save", "3 3"}}, want: "include a.conf\nsave \"\"\nsave 3 3\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := write(t, map[string]string{"main.conf": c.main, "a.conf": c.included})
			path := filepath.Join(dir, "main.conf")
			r, _ := New()
			if err := r.Load(Sources{Args: []string{path}}); err != nil {
				t.Fatal(err)
			}
			if err := r.Set(c.set...); err != nil {
				t.Fatal(err)
			}
			if err := r.Rewrite(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != c.want {
				t.Errorf("%v\n got %q\nwant %q", err, got, c.want)
			}
			again, _ := New()
			if err := again.Load(Sources{Args: []string{path}}); err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Get("*") {
				if got := get(t, again, p.Name); got != p.Value {
					t.Errorf("%s is %q after a start, was %q", p.Name, got, p.Value)
				}
			}
		})
	}
}
