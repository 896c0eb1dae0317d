package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"limitdb/internal/decisionlog"
)

// Every command that takes is logged, whatever the way in which it is decided; peeks, refunds and errors are not.
func TestDecisionsAreLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := decisionlog.Open(decisionlog.Options{Path: path, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ts := newTestServer(t)
	ts.decisions = log
	c := ts.client()
	for _, words := range []string{
		"RL.TAKE a GCRA 2/h", "RL.PEEK a GCRA 2/h", "RL.TAKE a LOG 2/h", "RL.REFUND a GCRA 2/h", "RL.TAKE a GCRA 2/h COST 0",
		"CL.THROTTLE b 0 1 60", "CL.THROTTLE b 0 1 60", "GCRA c 1 1 60", "RL.TAKE d GCRA 2/h COST 5 PARTIAL", "RL.RESERVE e GCRA 2/h COST 3",
		"RL.TAKEALL 2 f g GCRA 1/h GCRA 1/h", "RL.TAKE h GCRA 1/h REPLACE", "RL.TAKE w GCRA 1/h WAIT 1s",
	} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	direct(t, ts.Server, "RL.TAKE", "i", "GCRA", "1/h")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ctx)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		_, line, _ = strings.Cut(line, `"key":"`)
		key, rest, _ := strings.Cut(line, `"`)
		if strings.Contains(rest, `"limited":true`) {
			key += "!"
		}
		got = append(got, key)
	}
	if text, want := strings.Join(got, " "), "a b b! c d e f g h w i"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
