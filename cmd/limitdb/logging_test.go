package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"limitdb/internal/clock"
)

// A crowd of hostile clients cannot fill the disk, and what is left out is told.
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
