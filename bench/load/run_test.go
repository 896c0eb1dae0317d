package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// In these tests time is fake: it stands still while anything can run, so every latency is exactly what the
// fake server makes it.

// near reports whether a figure of a histogram with three digits can be want.
func near(got int64, want time.Duration) bool {
	off := time.Duration(got) - want
	return off.Abs() <= want/500+64
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(n int, _ []string) string {
			// The 4 commands of a pipeline take 2 ms each, so the first is answered 6 ms before the last.
			time.Sleep(2 * time.Millisecond)
			if n%4 == 3 {
				return denied
			}
			return granted
		}}
		start := time.Now()
		res, err := runFake(t.Context(), Config{Dial: f.pipe, Connections: 3, Pipeline: 4, Requests: 99})
		if err != nil {
			t.Fatal(err)
		}
		f.wg.Wait()
		if res.Requests != 100 || f.count() != 100 {
			t.Errorf("%d requests, the server saw %d; 99 rounded up to pipelines of 4 is 100", res.Requests, f.count())
		}
		if res.Limited != 25 || res.Errors != 0 {
			t.Errorf("limited %d, errors %d", res.Limited, res.Errors)
		}
		// 25 pipelines on 3 connections are 9 rounds of 8 ms.
		if d := time.Since(start); d != 72*time.Millisecond || res.Seconds != 0.072 || res.RequestsPerSecond != 1388.9 {
			t.Errorf("took %v; reported %v s and %v/s", d, res.Seconds, res.RequestsPerSecond)
		}
		l := res.Latency
		if !near(l.Min, 2*time.Millisecond) || !near(l.P50, 4*time.Millisecond) || !near(l.Max, 8*time.Millisecond) {
			t.Errorf("latency %v", l)
		}
		if res.SendLag != nil {
			t.Error("a closed loop has no lag")
		}
	})
}

func TestDurationEndsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: always(granted, 10*time.Millisecond)}
		res, err := runFake(t.Context(), Config{Dial: f.pipe, Connections: 2, Duration: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		f.wg.Wait()
		if res.Requests != 200 || res.Seconds != 1 {
			t.Errorf("%d requests in %v s", res.Requests, res.Seconds)
		}
	})
}

func TestWarmupIsNotCounted(t *testing.T) {
	for _, rate := range []uint64{0, 100} {
		t.Run(fmt.Sprint("rate ", rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				f := &fake{answer: func(int, []string) string {
					if time.Since(start) < time.Second {
						time.Sleep(10 * time.Millisecond)
						return "-ERR loading\r\n"
					}
					time.Sleep(5 * time.Millisecond)
					return granted
				}}
				res, err := runFake(t.Context(), Config{
					Dial: f.pipe, Connections: 1, Rate: rate, Warmup: 1500 * time.Millisecond, Requests: 50,
				})
				if err != nil {
					t.Fatal(err)
				}
				f.wg.Wait()
				if res.Requests != 50 || res.Errors != 0 || f.count() <= 100 {
					t.Errorf("%d requests, %d errors, the server saw %d", res.Requests, res.Errors, f.count())
				}
				if !near(res.Latency.Max, 5*time.Millisecond) || !near(res.Latency.Min, 5*time.Millisecond) {
					t.Errorf("latency %v", res.Latency)
				}
			})
		})
	}
}

// The server stops for half a second. A closed loop would send one request in that time and report the others
// as fast. Here every request counts from when it was due.
func TestOpenLoopCountsFromTheDueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &fake{answer: func(int, []string) string {
			if since := time.Since(start); since >= 200*time.Millisecond && since < 700*time.Millisecond {
				time.Sleep(700*time.Millisecond - since)
			}
			return granted
		}}
		res, err := runFake(t.Context(), Config{Dial: f.pipe, Connections: 1, Rate: 1000, Duration: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		f.wg.Wait()
		l := res.Latency
		if res.Requests != 1000 {
			t.Errorf("%d requests, want 1000", res.Requests)
		}
		// Half of the requests wait for 0 to 500 ms.
		if !near(l.Max, 500*time.Millisecond) || l.P50 > int64(2*time.Millisecond) ||
			!near(l.P90, 400*time.Millisecond) || !near(l.P99, 490*time.Millisecond) {
			t.Errorf("latency %v", l)
		}
		if res.SendLag == nil || !near(res.SendLag.Max, 0) {
			t.Errorf("the generator was late by %v", res.SendLag)
		}
	})
}

// A server that takes longer than the interval between requests gets no relief.
func TestOpenLoopDoesNotSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: always(granted, 2*time.Millisecond)}
		res, err := runFake(t.Context(), Config{Dial: f.pipe, Connections: 1, Pipeline: 10, Rate: 1000, Duration: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		f.wg.Wait()
		// 1000 requests of 2 ms. The last pipeline was due at 990 ms and ends at 2 s.
		if res.Requests != 1000 || res.Seconds != 2 || !near(res.Latency.Max, 1010*time.Millisecond) {
			t.Errorf("%d requests in %v s, latency %v", res.Requests, res.Seconds, res.Latency)
		}
	})
}

// At a low rate a connection may be idle for longer than the timeout.
func TestOpenLoopMayIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: always(granted, time.Millisecond)}
		res, err := runFake(t.Context(), Config{
			Dial: f.pipe, Connections: 20, Rate: 5, Requests: 40, Timeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.wg.Wait()
		if res.Requests != 40 || !near(res.Latency.Max, time.Millisecond) {
			t.Errorf("%d requests, latency %v", res.Requests, res.Latency)
		}
	})
}

func TestErrorsAreCounted(t *testing.T) {
	for _, rate := range []uint64{0, 1000} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{answer: func(n int, _ []string) string {
				time.Sleep(time.Millisecond)
				if n%10 == 9 {
					return "-OOM no\r\n"
				}
				return granted
			}}
			res, err := runFake(t.Context(), Config{Dial: f.pipe, Connections: 1, Pipeline: 5, Rate: rate, Requests: 100})
			if err != nil {
				t.Fatal(err)
			}
			f.wg.Wait()
			if res.Requests != 100 || res.Errors != 10 || res.FirstError != `"OOM no"` {
				t.Errorf("rate %d: %d requests, %d errors, %s", rate, res.Requests, res.Errors, res.FirstError)
			}
		})
	}
}

func TestBrokenServers(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(int, []string) string
		want   string
	}{
		{"closes", func(n int, _ []string) string { return map[bool]string{true: granted}[n < 3] }, "connection 1: the server closed it"},
		{"answers too often", always(granted+granted, 0), "connection 1: more replies than requests"},
		{"is no RESP server", always("HTTP/1.1 400 Bad Request\r\n\r\n", 0), `connection 1: a reply that is not RESP: "HTTP/1.1 400 Bad Request"`},
		{"is silent", nil, "connection 1: no reply for 3s"},
	} {
		for _, rate := range []uint64{0, 1000} {
			t.Run(fmt.Sprintf("%s, rate %d", c.name, rate), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &fake{answer: c.answer}
					stop := make(chan struct{})
					if c.answer == nil {
						f.answer = func(int, []string) string { <-stop; return "" }
					}
					start := time.Now()
					res, err := runFake(t.Context(), Config{Dial: f.pipe, Connections: 1, Rate: rate, Timeout: 3 * time.Second, Duration: time.Minute})
					if err == nil || err.Error() != c.want {
						t.Errorf("%v, %v, want %q", res, err, c.want)
					}
					if d := time.Since(start); d > 7*time.Second {
						t.Errorf("it took %v to notice", d)
					}
					close(stop)
					f.wg.Wait()
				})
			})
		}
	}
}

// If one connection fails, the run ends, and the others do not hang.
func TestOneLostConnectionEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		lost := &fake{answer: func(n int, _ []string) string { return map[bool]string{true: granted}[n < 5] }}
		f.answer = always(granted, time.Millisecond)
		n := 0
		res, err := runFake(t.Context(), Config{Connections: 10, Duration: time.Hour, Dial: func(ctx context.Context) (c net.Conn, err error) {
			if n++; n == 7 {
				return lost.pipe(ctx)
			}
			return f.pipe(ctx)
		}})
		if err == nil || err.Error() != "connection 7: the server closed it" {
			t.Errorf("%v, %v", res, err)
		}
		f.wg.Wait()
		lost.wg.Wait()
	})
}

func TestCancelReturnsWhatThereIs(t *testing.T) {
	for _, rate := range []uint64{0, 100} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{answer: always(granted, 10*time.Millisecond)}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second+time.Millisecond)
			defer cancel()
			res, err := runFake(ctx, Config{Dial: f.pipe, Connections: 1, Rate: rate, Duration: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			f.wg.Wait()
			if res.Requests != 500 || res.Seconds != 5.001 {
				t.Errorf("rate %d: %d requests in %v s", rate, res.Requests, res.Seconds)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: always(granted, 10*time.Millisecond)}
		var seen []Progress
		_, err := runFake(t.Context(), Config{
			Dial: f.pipe, Connections: 1, Warmup: 1500 * time.Millisecond, Duration: 1700 * time.Millisecond,
			Progress: func(p Progress) { seen = append(seen, p) },
		})
		if err != nil {
			t.Fatal(err)
		}
		f.wg.Wait()
		if len(seen) != 3 {
			t.Fatalf("%d calls: %v", len(seen), seen)
		}
		if p := seen[0]; !p.Warming || p.Elapsed != time.Second || p.Requests != 0 {
			t.Errorf("after 1 s: %+v", p)
		}
		// A request that is answered at the exact instant of the tick may or may not be included.
		if p := seen[1]; p.Warming || p.Elapsed != 500*time.Millisecond || p.Requests < 49 || p.Requests > 50 || !near(int64(p.P99), 10*time.Millisecond) {
			t.Errorf("after 2 s: %+v", p)
		}
		if p := seen[2]; p.Elapsed != 1500*time.Millisecond || p.Requests < 149 || p.Requests > 150 || p.PerSecond < 99 || p.PerSecond > 101 {
			t.Errorf("after 3 s: %+v", p)
		}
	})
}

func TestAuthentication(t *testing.T) {
	answer := func(_ int, args []string) string {
		if args[0] != "AUTH" {
			return granted
		}
		if args[1] == "right" {
			return "+OK\r\n"
		}
		return "-WRONGPASS no\r\n"
	}
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: answer}
		res, err := runFake(t.Context(), Config{Dial: f.pipe, Connections: 2, Requests: 10, Password: "right"})
		if err != nil || res.Requests != 10 {
			t.Errorf("%v, %v", res, err)
		}
		_, err = runFake(t.Context(), Config{Dial: f.pipe, Connections: 2, Requests: 10, Password: "wrong"})
		if err == nil || err.Error() != "connection 1 of 2: WRONGPASS no" {
			t.Errorf("%v", err)
		}
		f.wg.Wait()
	})
}

func TestConnectionRefused(t *testing.T) {
	n := 0
	f := &fake{answer: always(granted, 0)}
	_, err := runFake(t.Context(), Config{Connections: 3, Dial: func(ctx context.Context) (net.Conn, error) {
		if n++; n == 3 {
			return nil, errors.New("refused")
		}
		return f.pipe(ctx)
	}})
	if err == nil || err.Error() != "connection 3 of 3: refused" {
		t.Errorf("%v", err)
	}
	f.wg.Wait() // open connections are closed
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Connections: -1}, "connections must be 1 to 65536"},
		{Config{Connections: 65_537}, "connections must be 1 to 65536"},
		{Config{Pipeline: 65_537}, "pipeline must be 1 to 65536"},
		{Config{Keys: 1_000_000_000_001}, "keys must be 1 to 1000000000000"},
		{Config{Rate: 100_000_001}, "rate must be at most 100000000 a second"},
		{Config{Rate: 1, Requests: 1 << 62}, "that many requests take too long at this rate"},
		{Config{Duration: -1}, "a duration is out of range"},
		{Config{Warmup: 1 << 62}, "a duration is out of range"},
		{Config{ZipfS: 1}, "zipf's exponent must be above 1 and at most 100"},
		{Config{Distribution: "normal"}, `unknown distribution "normal": uniform, zipf, sequential or single`},
		{Config{Command: []string{""}}, "the command is empty"},
	} {
		c.config.Dial = func(context.Context) (net.Conn, error) { return nil, errors.New("dialled") }
		if _, err := runFake(t.Context(), c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
}

// The connections of a sequential run divide the keys among themselves.
func TestSequentialRunTouchesEveryKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: always("+OK\r\n", time.Millisecond)}
		_, err := runFake(t.Context(), Config{
			Dial: f.pipe, Connections: 7, Pipeline: 5, Keys: 700, Requests: 700,
			Distribution: Sequential, Command: []string{"SET", "k:{key}", "v"},
		})
		if err != nil {
			t.Fatal(err)
		}
		f.wg.Wait()
		seen := map[string]int{}
		for _, c := range f.commands {
			seen[c[1]]++
		}
		if len(seen) != 700 || seen["k:000000000000"] != 1 || seen["k:000000000699"] != 1 {
			t.Errorf("%d keys: %v", len(seen), seen)
		}
	})
}

// brokenPipe is a connection whose writes fail after some time.
type brokenPipe struct {
	net.Conn
	left int
}

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, errors.New("broken pipe")
	}
	return b.Conn.Write(p)
}

// The reader of an open loop does not wait for replies to requests that were never sent.
func TestFailedWriteEndsTheRun(t *testing.T) {
	for _, rate := range []uint64{0, 1000} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{answer: always(granted, 0)}
			start := time.Now()
			_, err := runFake(t.Context(), Config{Connections: 1, Rate: rate, Duration: time.Minute, Dial: func(ctx context.Context) (net.Conn, error) {
				c, err := f.pipe(ctx)
				return &brokenPipe{c, 3}, err
			}})
			if err == nil || err.Error() != "connection 1: broken pipe" {
				t.Errorf("rate %d: %v", rate, err)
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("rate %d: it took %v to notice", rate, d)
			}
			f.wg.Wait()
		})
	}
}

// Extending a deadline just after the run was stopped does not delay the end of the connection.
func TestExtendAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := &worker{run: &run{Config: Config{Timeout: time.Hour}}, conn: client}
		if err := w.extend(ctx, &deadline{set: client.SetDeadline}, time.Now()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := client.Read(make([]byte, 1)); err == nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
