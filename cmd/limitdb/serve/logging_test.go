package serve

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"limitdb/internal/clock"
)

// If the reader of the log stops, writers do not wait, and later the log says how many lines were dropped.
func TestLogDoesNotWaitForItsReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	l := &logOutput{file: w}
	line := strings.Repeat("x", 999) + "\n"
	for range 2000 { // 2 MB, more than a pipe holds
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	got := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		got <- string(all)
	}()
	for l.lost > 0 { // until the reader has begun
		l.Write([]byte("end\n"))
	}
	l.Write([]byte("last\n"))
	w.Close()
	all := <-got
	if strings.Count(all, line) < 10 || !strings.HasSuffix(all, "last\n") || !regexp.MustCompile(`log lines were dropped: nothing read the output" lost=[0-9]{2,}`).MatchString(all) {
		t.Errorf("read %d bytes that end in %q", len(all), all[max(0, len(all)-300):])
	}
}

// A crowd of hostile clients cannot fill the disk, and the log says how many lines were left out.
func TestLogLimitsItself(t *testing.T) {
	var out bytes.Buffer
	fake := clock.NewFake(1_600_000_000 * int64(time.Second))
	log := slog.New(&limitedHandler{next: slog.NewTextHandler(&out, nil), shared: &logLimits{clock: fake, states: make(map[string]*logState)}})
	for range 1000 {
		log.Info("hostile")
	}
	log.Info("another kind")
	if n := strings.Count(out.String(), "msg=hostile"); n != 50 {
		t.Errorf("%d lines at once, want 50", n)
	}
	if !strings.Contains(out.String(), "another kind") {
		t.Error("one kind of message has silenced another")
	}
	out.Reset()
	fake.Advance(99 * time.Millisecond)
	log.With("id", 1).Info("hostile")
	if out.Len() != 0 {
		t.Errorf("too early: %s", out.String())
	}
	fake.Advance(time.Millisecond)
	log.With("id", 1).Info("hostile")
	if got := out.String(); !strings.Contains(got, "left_out=951") {
		t.Errorf("got %q, want it to tell of 951 lines", got)
	}
}
