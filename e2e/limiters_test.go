package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	redigo "github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-redisstore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ulule "github.com/ulule/limiter/v3/drivers/store/redis"
)

// TestLimiters drives limiters for other languages, unmodified, with limitdb in the place of Redis.
func TestLimiters(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		line func(t *testing.T) []string
		want []string
	}{
		{"Node.js", node("limiters.js", "rate-limiter-flexible"), []string{
			"@fastify/rate-limit", "bottleneck", "express-rate-limit", "rate-limiter-flexible", "rate-limiter-flexible, not atomic", "redlock", "redlock 5",
		}},
		{"Python", script("/usr/bin/python3", "import limits, flask_limiter, django_redis", "-c", "python/limiters.py"), []string{
			"Flask-Limiter, fixed-window", "Flask-Limiter, moving-window", "django-redis", "django-redis, add", "limits, clear",
			"limits, fixed window", "limits, moving window", "limits, reset", "redis-py, lock", "redis-py, pipeline", "redis-py, script",
			"redis-py, watch",
		}},
		{"Ruby", script("ruby", "require 'rack/attack'; require 'active_support'", "-e", "ruby/limiters.rb"), []string{
			"ActiveSupport, cache", "ActiveSupport, counters", "rack-attack",
		}},
		{"Laravel", script("php", "require 'Illuminate/autoload.php';", "-r", "php/limiters.php"), []string{
			"Laravel, available in", "Laravel, funnel", "Laravel, lock", "Laravel, rate limiter", "Laravel, recovers", "Laravel, throttle",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			line := tt.line(t)
			f := startFixture(t)
			r := runEnv(t, f.env("limiters"), "", line[0], line[1:]...)
			if got := passed(r.Stdout); r.Code != 0 || !slices.Equal(got, tt.want) {
				t.Fatalf("exit code %d, passed %q, want %q\n%s%s", r.Code, got, tt.want, r.Stdout, r.Stderr)
			}
		})
	}
}

// recovers takes until the limiter denies, and then until it lets through again.
func recovers(t *testing.T, take func() bool) {
	t.Helper()
	eventually(t, "the limiter denies", func() bool { return !take() })
	eventually(t, "the limiter lets through again", take)
}

// TestGoLimiters drives limiters for Go, unmodified, with limitdb in the place of Redis.
func TestGoLimiters(t *testing.T) {
	t.Parallel()
	addr := start(t).Addr
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	defer client.Close()
	ctx := t.Context()

	t.Run("redis_rate", func(t *testing.T) {
		l := redis_rate.NewLimiter(client)
		limit := redis_rate.PerHour(3)
		for want := 2; want >= 0; want-- {
			r, err := l.Allow(ctx, "user", limit)
			if err != nil || r.Allowed != 1 || r.Remaining != want {
				t.Fatalf("%+v, %v; want 1 allowed, %d remaining", r, err, want)
			}
		}
		r, err := l.Allow(ctx, "user", limit)
		if err != nil || r.Allowed != 0 || r.RetryAfter <= 0 || r.ResetAfter <= 0 {
			t.Fatalf("%+v, %v; want a denial", r, err)
		}
		recovers(t, func() bool {
			r, err := l.AllowAtMost(ctx, "another", redis_rate.PerSecond(3), 2)
			return err == nil && r.Allowed > 0
		})
		if err := l.Reset(ctx, "user"); err != nil {
			t.Fatal(err)
		}
		if r, err := l.AllowN(ctx, "user", limit, 3); err != nil || r.Allowed != 3 {
			t.Fatalf("%+v, %v after a reset", r, err)
		}
	})

	t.Run("ulule", func(t *testing.T) {
		store, err := ulule.NewStore(client)
		if err != nil {
			t.Fatal(err)
		}
		l := limiter.New(store, limiter.Rate{Period: time.Hour, Limit: 2})
		for i, reached := range []bool{false, false, true} {
			c, err := l.Get(ctx, "user")
			if err != nil || c.Reached != reached {
				t.Fatalf("call %d: %+v, %v", i, c, err)
			}
		}
		if c, err := l.Peek(ctx, "user"); err != nil || !c.Reached {
			t.Fatalf("%+v, %v", c, err)
		}
		short := limiter.New(store, limiter.Rate{Period: time.Second, Limit: 2})
		recovers(t, func() bool { c, err := short.Get(ctx, "another"); return err == nil && !c.Reached })
		if _, err := l.Reset(ctx, "user"); err != nil {
			t.Fatal(err)
		}
		if c, err := l.Get(ctx, "user"); err != nil || c.Remaining != 1 {
			t.Fatalf("%+v, %v after a reset", c, err)
		}
	})

	t.Run("throttled", func(t *testing.T) {
		store, err := goredisstore.NewCtx(client, "throttled:")
		if err != nil {
			t.Fatal(err)
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(5), MaxBurst: 1})
		if err != nil {
			t.Fatal(err)
		}
		h := (&throttled.HTTPRateLimiterCtx{RateLimiter: l}).RateLimit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		recovers(t, func() bool {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			if w.Code != 200 && w.Code != 429 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			return w.Code == 200
		})
	})

	t.Run("go-redisstore", func(t *testing.T) {
		two := func(interval time.Duration) *redisstore.Config {
			return &redisstore.Config{
				Tokens: 2, Interval: interval,
				Dial: func() (redigo.Conn, error) { return redigo.Dial("tcp", addr) },
			}
		}
		store, err := redisstore.New(two(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close(context.WithoutCancel(ctx))
		short, err := redisstore.New(two(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		defer short.Close(context.WithoutCancel(ctx))
		for i, want := range []bool{true, true, false} {
			if _, _, _, ok, err := store.Take(ctx, "user"); ok != want || err != nil {
				t.Fatalf("take %d: %v, %v", i, ok, err)
			}
		}
		recovers(t, func() bool {
			_, _, _, ok, err := short.Take(ctx, "another")
			if err != nil {
				t.Fatal(err)
			}
			return ok
		})
		if err := store.Burst(ctx, "user", 5); err != nil {
			t.Fatal(err)
		}
		if err := store.Set(ctx, "other", 7, time.Minute); err != nil {
			t.Fatal(err)
		}
		if tokens, remaining, err := store.Get(ctx, "other"); err != nil || tokens != 7 || remaining != 7 {
			t.Fatalf("%d, %d, %v", tokens, remaining, err)
		}
	})
}
