package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/transport"
)

// A pause ends by the server's clock. Its timer may ring early, because that clock may run more slowly, and it may ring late,
// because the clock may be set forward.
func TestPauseEndsWithoutItsTimer(t *testing.T) {
	for name, slept := range map[string]time.Duration{"a slow clock": 2 * time.Second, "a clock set forward": 0} {
		synctest.Test(t, func(t *testing.T) {
			registry, set := config.New()
			now := clock.NewFake(testStart)
			srv := New(Options{Settings: set, Registry: registry, Engine: engine.New(engine.Options{Seed: 1}), Clock: now, Version: "test"})
			ts := &testServer{Server: srv, t: t}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); srv.Run(ctx) }()
			c, admin := ts.client(), ts.client()
			admin.do("CLIENT", "PAUSE", "1000")
			if got := c.raw("GET k\r\n"); got != "" {
				t.Errorf("%s: under PAUSE: %q", name, got)
			}
			time.Sleep(slept)
			synctest.Wait()
			if srv.pause.Held.Len() != 1 {
				t.Errorf("%s: the pause has ended early", name)
			}
			now.Advance(time.Second)
			time.Sleep(2 * houseEvery)
			synctest.Wait()
			if srv.pause.Held.Len() != 0 {
				t.Errorf("%s: the pause has not ended", name)
			} else if got := c.resume(); got != "$-1\r\n" {
				t.Errorf("%s: after PAUSE: %q", name, got)
			}
			c.hangUp(transport.ErrPeerClosed)
			admin.hangUp(transport.ErrPeerClosed)
			cancel()
			<-done
		})
	}
}
