package spec

import (
	"errors"
	"testing"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"persistence: the log cannot be written": "the log cannot be written",
		"writing log-1: no space left on device": "writing log-1: no space left on device",
		"closed":                                 "closed",
		"engine":                                 "engine",
		"":                                       "",
	} {
		if got := Plain(errors.New(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
