package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"limitdb/internal/decisionlog"
)

// Every command that takes is logged, however it is decided. Peeks, refunds and errors are not logged.
func TestDecisionsAreLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := decisionlog.Open(decisionlog.Options{Path: path, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ts := newTestServer(t)
	ts.parts.Decisions = log
	c := ts.client()
	for _, words := range []string{
		"RL.TAKE a GCRA 2/h", "RL.PEEK a GCRA 2/h", "RL.TAKE a LOG 2/h", "RL.REFUND a GCRA 2/h", "RL.TAKE a GCRA 2/h COST 0",
		"CL.THROTTLE b 0 1 60", "CL.THROTTLE b 0 1 60", "GCRA c 1 1 60", "RL.TAKE d GCRA 2/h COST 5 PARTIAL", "RL.RESERVE e GCRA 2/h COST 3",
		"RL.TAKEALL 2 f g GCRA 1/h GCRA 1/h", "RL.TAKE h GCRA 1/h REPLACE", "RL.TAKE w GCRA 1/h WAIT 1s",
	} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	overHTTP(t, ts.Server, "RL.TAKE", "i", "GCRA", "1/h")
	if _, err := ts.rules.Load([]byte("version: 1\nnamespaces: {shop: [{name: x, key: [user], limit: 1/h}, {name: y, limit: 9/h, mode: shadow, candidate: 1/h}]}")); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"RL.CHECK shop 1 user u", "RL.CHECK shop 1 user u PEEK", "RL.CHECK shop 1 user u"} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	for _, words := range []string{
		"MULTI", "RL.TAKE ma GCRA 1/h", "RL.TAKEALL 2 mb ma GCRA 1/h GCRA 1/h", "CL.THROTTLE mc 0 1 60",
		"RL.CHECK shop 1 user m", "RL.CHECK shop 1 user m PEEK", "EXEC",
		"MULTI", "RL.TAKE given-up GCRA 1/h", "RL.CHECK shop 1 user given-up", "DISCARD",
	} {
		c.raw(string(encode(strings.Fields(words)...)))
	}
	c.do("EVAL", "redis.call('RL.TAKE', 's', 'GCRA', '1/h') return redis.call('RL.CHECK', 'shop', '1', 'user', 's')", "0")
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
		if _, rule, ok := strings.Cut(rest, `"rule":"`); ok {
			key = strings.TrimSuffix(rule, "\"}\n")
		}
		if strings.Contains(rest, `"limited":true`) {
			key += "!"
		}
		got = append(got, key)
	}
	if text, want := strings.Join(got, " "), "a b b! c d e f g h w i shop/x shop/y shop/x! shop/y"+
		" ma mb ma! mc shop/x shop/y s shop/x shop/y"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
