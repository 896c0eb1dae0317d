package known_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"limitdb/known/knowntest"
	"limitdb/resp"
)

// The vectors are recorded with Debian's redis-server, whose clock testdata/clock.c sets:
//
//	scripts/install-test-tools
//	go test ./known -run TestVectors -record FOLDER
//
// FOLDER has the texts of the scripts that are in no package of scripts/install-test-tools,
// as they are published, in files SHA.lua. A script whose text is not there keeps its
// vectors.
var recordFrom = flag.String("record", "", "record the vectors, with the texts in a `folder`")

// recordings is how many times each script is called some times in a row.
const recordings = 6

// redis is a server whose clock stands still until it is set.
type redis struct {
	conn  net.Conn
	in    *bufio.Reader
	clock string // the file with its time
}

func startRedis(t *testing.T) *redis {
	dir := t.TempDir()
	r := &redis{clock: filepath.Join(dir, "clock")}
	r.set(t, time.Unix(1_800_000_000, 0))
	library, socket := filepath.Join(dir, "clock.so"), filepath.Join(dir, "socket")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", library, "testdata/clock.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+library, "CLOCK="+r.clock)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(time.Minute); r.conn == nil; {
		if r.conn, _ = net.Dial("unix", socket); r.conn == nil && time.Now().After(deadline) {
			t.Fatal("redis-server does not answer")
		}
	}
	r.in = bufio.NewReader(r.conn)
	return r
}

// set sets the clock.
func (r *redis) set(t *testing.T, at time.Time) {
	file, err := os.OpenFile(r.clock, os.O_CREATE|os.O_WRONLY, 0o600) // in place: redis-server has mapped it
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := binary.Write(file, binary.LittleEndian, at.UnixMicro()); err != nil {
		t.Fatal(err)
	}
}

// do sends a command and returns its reply.
func (r *redis) do(t *testing.T, words ...string) resp.Value {
	if _, err := r.conn.Write(resp.AppendCommand(nil, words...)); err != nil {
		t.Fatal(err)
	}
	v, err := resp.ReadReply(r.in, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// held returns what a key holds.
func (r *redis) held(t *testing.T, key string) held {
	h := held{Key: key, Type: r.do(t, "TYPE", key).Text}
	var v resp.Value
	switch h.Type {
	case "none":
		return h
	case "string":
		v.Elems = []resp.Value{r.do(t, "GET", key)}
	case "list":
		v = r.do(t, "LRANGE", key, "0", "-1")
	case "hash":
		v = r.do(t, "HGETALL", key)
	}
	for _, e := range v.Elems {
		h.Texts = append(h.Texts, e.Text)
	}
	h.Expires = max(0, r.do(t, "PEXPIRETIME", key).Int)
	return h
}

// record makes the file of vectors.
func record(t *testing.T, texts string) {
	old, _ := os.ReadFile(vectorsFile)
	file, err := os.Create(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := startRedis(t)
	for _, spec := range knowntest.Specs() {
		source, err := spec.Source("..", texts)
		if errors.Is(err, fs.ErrNotExist) {
			for line := range strings.Lines(string(old)) {
				if strings.Contains(line, spec.SHA) {
					fmt.Fprint(file, line)
				}
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		source = strings.ReplaceAll(source, "server.call(", "redis.call(") // a name that only Valkey has
		for seed := range recordings {
			for _, v := range r.call(t, &spec, source, seed) {
				line, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(file, "%s\n", line)
			}
		}
	}
}

// call calls a script some times in a row, and returns the calls.
func (r *redis) call(t *testing.T, spec *knowntest.Spec, source string, seed int) (vectors []vector) {
	type run struct {
		keys  []string
		calls []knowntest.Call
	}
	now := time.Unix(1_800_000_000, 123_456_000).Add(time.Duration(seed) * time.Hour)
	r.set(t, now)
	r.do(t, "FLUSHALL")
	all := rapid.Custom(func(t *rapid.T) run {
		keys := spec.KeyNames(t, "k")
		return run{keys, spec.Calls(t, keys, now)}
	}).Example(seed)
	for _, c := range all.calls {
		now = now.Add(c.Wait)
		r.set(t, now)
		for _, words := range c.Before {
			r.do(t, words...)
		}
		v := vector{SHA: spec.SHA, Now: now.UnixMicro(), Args: c.Args}
		unlike := false // limitdb: an expiry there is before the year 2263, and the millisecond itself is over
		for _, key := range all.keys {
			h := r.held(t, key)
			v.Before = append(v.Before, h)
			unlike = unlike || h.Expires == now.UnixMilli() || h.Expires > 1<<43
		}
		v.Reply = render(r.do(t, slices.Concat([]string{"EVAL", source, strconv.Itoa(len(all.keys))}, all.keys, c.Args)...))
		for _, key := range all.keys {
			v.After = append(v.After, r.held(t, key))
		}
		if !unlike {
			vectors = append(vectors, v)
		}
	}
	return vectors
}

// render returns a reply in one line.
func render(v resp.Value) string {
	switch {
	case v.Null:
		return "nil"
	case v.Kind == ':':
		return strconv.FormatInt(v.Int, 10)
	case v.Kind == '$':
		return strconv.Quote(v.Text)
	case v.Kind == '*':
		parts := make([]string, len(v.Elems))
		for i, e := range v.Elems {
			parts[i] = render(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return string(v.Kind) + v.Text
}
