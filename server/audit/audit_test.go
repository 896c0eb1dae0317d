package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"limitdb/internal/origin"
)

const testStart = 1_600_000_000 * int64(1e9)

// open opens a log, which is strict if the function returns true.
func open(t *testing.T, most int64, strict func() bool) (l *Log, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit")
	l, err := Open(Options{Path: path, MaxBytes: most, Strict: strict})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, path
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func never() bool  { return false }
func always() bool { return true }

func TestLines(t *testing.T) {
	l, path := open(t, 1<<20, never)
	value := 1
	what := What{
		From: &origin.Origin{User: "o\"ps", Addr: "127.0.0.1:5"}, Way: "resp", Command: "config|set",
		Args: [][]byte{[]byte("CONFIG"), []byte("a\xff\\")}, View: func() any { return map[string]int{"v": value} },
	}
	first, err := l.Begin(testStart+1_234_567, &what)
	if err != nil {
		t.Fatal(err)
	}
	value = 2
	what.View = nil
	second, err := l.Begin(testStart, &what)
	if err != nil {
		t.Fatal(err)
	}
	first.End(testStart+2e9, "OK")
	second.End(testStart, "ERR no")
	const who = `"user":"o\"ps","addr":"127.0.0.1:5","way":"resp","command":"config|set","args":["CONFIG","a\\xff\\\\"]`
	want := `{"id":1600000000001234,"time":"2020-09-13T12:26:40.001234Z",` + who + `,"before":{"v":1}}` + "\n" +
		`{"id":1600000000001235,"time":"2020-09-13T12:26:40.000000Z",` + who + "}\n" +
		`{"id":1600000000001234,"time":"2020-09-13T12:26:42.000000Z","result":"OK","after":{"v":2}}` + "\n" +
		`{"id":1600000000001235,"time":"2020-09-13T12:26:40.000000Z","result":"ERR no"}` + "\n"
	if got := read(t, path); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	if w, f := l.Counts(); w != 4 || f != 0 {
		t.Errorf("%d written, %d failed", w, f)
	}
}

// Every line is JSON, and bounded whatever a client sends.
func TestLongArguments(t *testing.T) {
	l, path := open(t, 1<<30, always)
	args := [][]byte{bytes.Repeat([]byte{0xff}, maxArg+1)}
	for range 5000 {
		args = append(args, bytes.Repeat([]byte{0}, 100))
	}
	if _, err := l.Begin(testStart, &What{From: new(origin.Origin), Args: args}); err != nil {
		t.Fatal(err)
	}
	var line struct{ Args []string }
	text := read(t, path)
	if err := json.Unmarshal([]byte(text), &line); err != nil || len(text) > 2*maxArgs {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if !strings.HasSuffix(line.Args[0], "... (1 more bytes)") || !strings.HasSuffix(line.Args[len(line.Args)-1], " more arguments)") {
		t.Errorf("%.40q … %q", line.Args[0], line.Args[len(line.Args)-1])
	}
	if args[0][maxArg] != 0xff {
		t.Error("the argument was changed")
	}
}

// The file is moved away when it is full, and opened again when somebody has moved it.
func TestFilesOfALog(t *testing.T) {
	l, path := open(t, 2000, never)
	for range 100 {
		if _, err := l.Begin(testStart, &What{From: new(origin.Origin), Command: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(read(t, path)) + len(read(t, path+".1")); n > 2000 || n < 1000 {
		t.Errorf("%d bytes", n)
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Begin(testStart, &What{From: new(origin.Origin), Command: "after"}); err != nil || !strings.Contains(read(t, path), "after") {
		t.Error(err)
	}
	var none *Log
	if none.Reopen() != nil || none.Close() != nil {
		t.Error("no log fails")
	}
	if _, err := Open(Options{Path: t.TempDir()}); err == nil || !strings.HasPrefix(err.Error(), "audit-log: ") {
		t.Error(err)
	}
}

// A file that takes no more refuses changes if the log is strict; it has whole lines only, and goes on when there is room again.
func TestFullFile(t *testing.T) {
	strict := true
	l, path := open(t, 1<<20, func() bool { return strict })
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	begin := func() (*Change, error) { return l.Begin(testStart, &What{From: new(origin.Origin), Command: "x"}) }
	change, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	before := read(t, path)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(len(before) + 10), Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	refused, refusal := begin()
	change.End(testStart, "OK")
	strict = false
	_, allowed := begin()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if refused != nil || refusal == nil || allowed != nil || read(t, path) != before {
		t.Errorf("%v, %v, %q", refusal, allowed, read(t, path))
	}
	if w, f := l.Counts(); w != 1 || f != 3 {
		t.Errorf("%d written, %d failed", w, f)
	}
	if _, err := begin(); err != nil || strings.Count(read(t, path), "\n") != 2 {
		t.Errorf("%v, %q", err, read(t, path))
	}
}
