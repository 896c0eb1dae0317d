// Command envoy asks servers of Envoy's rate limit service for decisions at a fixed rate, one server after the other in rounds, and prints the
// times of the answers and the processor time that each server's processes took for a decision. bench/envoy.sh starts the servers.
//
//	envoy -rate 5000 -each 10s -rounds 3 limitdb=127.0.0.1:8081,PID service=127.0.0.1:8083,PID,PID-of-redis
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	o := options{}
	flag.IntVar(&o.rate, "rate", 5000, "requests a second")
	flag.DurationVar(&o.each, "each", 10*time.Second, "how long each server is asked in a round")
	flag.IntVar(&o.rounds, "rounds", 3, "how many rounds")
	flag.IntVar(&o.conns, "conns", 8, "connections to each server")
	flag.IntVar(&o.callers, "callers", 10_000, "how many callers there are")
	flag.Parse()
	if err := run(o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "envoy:", err)
		os.Exit(1)
	}
}

type options struct {
	rate, rounds, conns, callers int
	each                         time.Duration
}

// A server is one that is asked.
type server struct {
	name    string
	pids    []int
	clients []rls.RateLimitServiceClient

	// The figures of all rounds.
	failed int64
	cpu    time.Duration
	times  *hdrhistogram.Histogram // µs, from when a request was due
}

// dial returns the server that NAME=ADDRESS,PID,PID… describes.
func dial(text string, conns int) (*server, error) {
	name, rest, ok := strings.Cut(text, "=")
	parts := strings.Split(rest, ",")
	if !ok || len(parts) < 2 {
		return nil, fmt.Errorf("%s is not NAME=ADDRESS,PID", text)
	}
	s := &server{name: name, times: hdrhistogram.New(1, 60_000_000, 3)}
	for _, p := range parts[1:] {
		pid, err := strconv.Atoi(p)
		if err != nil {
			return nil, err
		}
		s.pids = append(s.pids, pid)
	}
	for range conns {
		c, err := grpc.NewClient(parts[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, rls.NewRateLimitServiceClient(c))
	}
	return s, nil
}

func run(o options, args []string) error {
	var all []*server
	for _, a := range args {
		s, err := dial(a, o.conns)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return errors.New("there is no server to ask")
	}
	for _, s := range all { // connections and warm code
		if err := s.ask(o, time.Second, hdrhistogram.New(1, 60_000_000, 3)); err != nil {
			return err
		}
	}
	for range o.rounds {
		for _, s := range all {
			before, err := s.used()
			if err != nil {
				return err
			}
			if err := s.ask(o, o.each, s.times); err != nil {
				return err
			}
			after, err := s.used()
			if err != nil {
				return err
			}
			s.cpu += after - before
		}
	}
	fmt.Printf("| server | requests/s | failed | p50 | p99 | p99.9 | CPU of a request | of the last |\n|---|---|---|---|---|---|---|---|\n")
	last := all[len(all)-1]
	asked := float64(o.rounds) * o.each.Seconds() * float64(o.rate)
	for _, s := range all {
		at := func(q float64) string { return time.Duration(s.times.ValueAtQuantile(q) * 1000).String() }
		fmt.Printf("| %s | %.0f | %d | %s | %s | %s | %.1f µs | %.2f × |\n", s.name, float64(s.times.TotalCount())/float64(o.rounds)/o.each.Seconds(), s.failed,
			at(50), at(99), at(99.9), float64(s.cpu.Microseconds())/asked, float64(s.cpu)/float64(last.cpu))
	}
	return nil
}

// request returns the request of one of the callers: one descriptor that all share, and one of the caller.
func request(caller int) *rls.RateLimitRequest {
	entry := func(key, value string) *common.RateLimitDescriptor {
		return &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}}
	}
	return &rls.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{
		entry("generic_key", "api"), entry("remote_address", "192.0."+strconv.Itoa(caller/256)+"."+strconv.Itoa(caller%256)),
	}}
}

// ask asks at the rate for a time. A request's time counts from when it is due, so a server that stops for a while is seen.
func (s *server) ask(o options, lasts time.Duration, times *hdrhistogram.Histogram) error {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards times and first
	var first error
	gap := time.Duration(o.conns) * time.Second / time.Duration(o.rate)
	begin := time.Now().Add(10 * time.Millisecond)
	for i, c := range s.clients {
		own := hdrhistogram.New(1, 60_000_000, 3)
		var inside sync.WaitGroup
		var ownMu sync.Mutex // guards own
		wg.Go(func() {
			due := begin.Add(gap * time.Duration(i) / time.Duration(o.conns))
			for n := i; due.Before(begin.Add(lasts)); n += o.conns {
				time.Sleep(time.Until(due))
				at := due
				inside.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					defer cancel()
					_, err := c.ShouldRateLimit(ctx, request(n%o.callers))
					took := time.Since(at).Microseconds()
					ownMu.Lock()
					defer ownMu.Unlock()
					if err != nil {
						atomic.AddInt64(&s.failed, 1)
						mu.Lock()
						first = err
						mu.Unlock()
						return
					}
					_ = own.RecordValue(max(1, took)) // up to a minute fits
				})
				due = due.Add(gap)
			}
			inside.Wait()
			mu.Lock()
			times.Merge(own)
			mu.Unlock()
		})
	}
	wg.Wait()
	if times.TotalCount() == 0 {
		return fmt.Errorf("%s answers nothing: %w", s.name, first)
	}
	return nil
}

// ticks is how many units of processor time /proc counts in a second.
const ticks = 100

// used returns the processor time that the server's processes have taken.
func (s *server) used() (sum time.Duration, err error) {
	for _, pid := range s.pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		for _, f := range fields[11:13] { // utime and stime
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * time.Second / ticks
		}
	}
	return sum, nil
}
