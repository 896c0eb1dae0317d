package decisionlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// runLog opens a log, runs it, and returns a function that ends it.
func runLog(t *testing.T, o Options) (l *Log, end func()) {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	return l, func() { cancel(); <-done }
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, end := runLog(t, Options{Path: path, MaxBytes: 1 << 20})
	l.Offer(&Decision{Time: 1_600_000_000_000_000_001, Key: []byte("user:1"), Cost: 1, Limit: 10, Remaining: 9})
	l.Offer(&Decision{Time: 2, Key: []byte("a\"\\\n\xffü"), Cost: 3, Limited: true, Rule: "r"})
	l.Settle(&Settlement{Time: 3, Key: []byte("user:1"), ID: []byte("a\xff"), Estimate: 9, Actual: 4, Charged: -5, Rule: "n/r"})
	l.Settle(&Settlement{Time: 4, Key: []byte("user:1"), ID: []byte("b"), How: Cancelled, Estimate: 9, Charged: -9})
	end()
	want := `{"time":1600000000000000001,"key":"user:1","cost":1,"limited":false,"limit":10,"remaining":9}` + "\n" +
		`{"time":2,"key":"a\"\\\\\u000a\\xffü","cost":3,"limited":true,"limit":0,"remaining":0,"rule":"r"}` + "\n" +
		`{"time":3,"key":"user:1","settled":"commit","id":"a\\xff","estimate":9,"actual":4,"charged":-5,"over":0,"rule":"n/r"}` + "\n" +
		`{"time":4,"key":"user:1","settled":"cancel","id":"b","estimate":9,"actual":0,"charged":-9,"over":0}` + "\n"
	if got := read(t, path); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if w, d := l.Counts(); w != 4 || d != 0 {
		t.Errorf("%d written, %d dropped", w, d)
	}
}

// A caller is logged always or never.
func TestSample(t *testing.T) {
	l, err := Open(Options{Path: filepath.Join(t.TempDir(), "log"), MaxBytes: 1 << 20, OneIn: func() int64 { return 10 }})
	if err != nil {
		t.Fatal(err)
	}
	logged := 0
	for i := range 10_000 {
		key := fmt.Append(nil, "user:", i)
		wanted := l.Wants(key)
		if wanted {
			logged++
		}
		if again := l.Wants(key); again != wanted {
			t.Fatal("not always the same")
		}
	}
	if logged < 800 || logged > 1200 {
		t.Errorf("%d of 10000 are logged", logged)
	}
}

func TestSizeIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	const most = 4000
	l, end := runLog(t, Options{Path: path, MaxBytes: most})
	for i := range 1000 {
		l.Offer(&Decision{Time: int64(i), Key: []byte("user:1")})
	}
	end()
	written, dropped := l.Counts()
	if written+dropped != 1000 {
		t.Errorf("%d and %d are not 1000", written, dropped)
	}
	if n := len(read(t, path)) + len(read(t, path+".1")); n > most {
		t.Errorf("%d bytes", n)
	}
	if !strings.Contains(read(t, path), `"time":999`) {
		t.Error("the latest is not there")
	}
}

// Decisions that nobody writes are dropped and counted, and Offer never waits.
func TestDropped(t *testing.T) {
	l, err := Open(Options{Path: filepath.Join(t.TempDir(), "log"), MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for range waiting + 5 {
		l.Offer(&Decision{Key: []byte("a")})
	}
	if _, dropped := l.Counts(); dropped != 5 {
		t.Errorf("%d were dropped", dropped)
	}
	for range waiting {
		l.write(<-l.lines)
	}
	const fit = 15 // keys without text are six times as long in JSON
	for range fit + 5 {
		l.Offer(&Decision{Key: make([]byte, waitingBytes/(6*fit+5))})
	}
	if _, dropped := l.Counts(); len(l.lines) != fit || dropped != 10 {
		t.Errorf("%d long lines wait, and %d were dropped", len(l.lines), dropped-5)
	}
}

// A file that cannot be made is tried again.
func TestFileThatFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	path := filepath.Join(dir, "log")
	if _, err := Open(Options{Path: path, MaxBytes: 1 << 20}); err == nil {
		t.Fatal("opened in no folder")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: dir, MaxBytes: 1 << 20}); err == nil {
		t.Error("a folder was opened")
	}
	l, err := Open(Options{Path: path, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l.fail(errors.New("for a test"))
	l.write([]byte("a\n"))
	l.Flush()
	l.write([]byte("b\n"))
	l.Flush()
	if got := read(t, path); got != "b\n" {
		t.Errorf("%q", got)
	}
	if w, d := l.Counts(); w != 1 || d != 1 {
		t.Errorf("%d written, %d dropped", w, d)
	}
}

// TestFileThatTakesAPart checks that a file which takes only some lines ends with a whole one, and that the others are
// counted as dropped.
func TestFileThatTakesAPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := Open(Options{Path: path, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d := &Decision{Key: []byte("k")}
	length := len(d.line())
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	step := func(lines int, most uint64, written, dropped uint64) {
		t.Helper()
		for range lines {
			l.write(d.line())
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		l.Flush()
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		if w, d := l.Counts(); w != written || d != dropped {
			t.Errorf("%d written, %d dropped, want %d and %d", w, d, written, dropped)
		}
		if got := read(t, path); got != strings.Repeat(string(d.line()), int(written)) {
			t.Errorf("after %d lines the file is %q", written, got)
		}
	}
	step(1, limit.Cur, 1, 0)
	step(9, uint64(3*length+length/2), 3, 7)
	step(1, limit.Cur, 3, 8) // there is no file until the next Flush
	step(2, limit.Cur, 5, 8)
	for range bufferSize/length + 1 {
		l.write(d.line())
	}
	if w, _ := l.Counts(); w <= 5 {
		t.Error("a full buffer waits for Flush")
	}
}
