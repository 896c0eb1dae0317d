// Package load is a load generator for servers that speak RESP: limitdb bench.
// It runs a fixed number of connections, closed loop (the next request follows the reply) or open loop
// (requests are due at times that do not depend on replies). It reports throughput, a histogram of latencies
// and, for a server on this machine, the CPU time of each operation.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what to send, how, and for how long. A zero field means the default in its comment.
type Config struct {
	// Addr is host:port, or the path of a unix socket if it contains a slash. Default: 127.0.0.1:6379.
	Addr string
	// Password is sent with AUTH on each connection, unless it is empty.
	Password string
	// Dial connects to the server; nil means a net.Dialer that connects to Addr.
	Dial func(context.Context) (net.Conn, error)

	// Command has the words of the command. Placeholder in a word is replaced by the number of a key.
	// Default: CL.THROTTLE user:{key} 100 100 360000.
	Command []string
	// Keys is the number of keys. Default: 1 000 000.
	Keys uint64
	// Distribution is how keys are chosen. Default: Uniform.
	Distribution Distribution
	// ZipfS is Zipf's exponent, above 1. Default: 1.1.
	ZipfS float64
	// Seed makes the keys of two runs the same.
	Seed uint64

	// Cluster divides the connections among the nodes that lead the slots of a cluster, of which Addr is any node. Each sends the keys that its
	// node leads. Distribution is Uniform or Zipf.
	Cluster bool

	// Connections is the number of connections (default: 50), and Pipeline the number of requests that are
	// sent together (default: 1).
	Connections, Pipeline int
	// Rate is the number of requests a second of all connections together, due at regular intervals. 0 means
	// a closed loop.
	Rate uint64
	// Requests ends the measurement after this many requests, rounded up to whole pipelines, and Duration
	// after this time, whichever comes first. If neither is set, it ends after 10 s.
	Requests uint64
	Duration time.Duration
	// Warmup is the time before the measurement; its requests do not count.
	Warmup time.Duration
	// Timeout is how long a connection may wait for replies without receiving any. Default: 10 s.
	Timeout time.Duration

	// PID is the server's process, whose CPU time is measured. 0 means none.
	PID int
	// Progress is called about once a second, unless it is nil.
	Progress func(Progress)

	// newNap makes the nap with which the pacer of an open loop sleeps, until the context ends.
	newNap func(context.Context) (nap, error)
}

// Progress describes a run in progress.
type Progress struct {
	// Warming is true before the measurement begins.
	Warming bool
	// Elapsed is the time since the measurement (or the warm-up) began.
	Elapsed time.Duration
	// Requests and Errors count the replies so far.
	Requests, Errors uint64
	// PerSecond, P50 and P99 cover the time since the last call.
	PerSecond float64
	P50, P99  time.Duration
}

const (
	defaultAddr     = "127.0.0.1:6379"
	maxConnections  = 65_536
	maxPipeline     = 65_536
	maxRate         = 100_000_000
	maxDuration     = 30 * 24 * time.Hour
	writeBufferSize = 64 << 10
)

// withDefaults sets zero fields to their defaults, and returns an error if the configuration makes no sense.
func (c Config) withDefaults() (Config, error) {
	if c.Addr == "" {
		c.Addr = defaultAddr
	}
	if len(c.Command) == 0 {
		c.Command = strings.Fields(DefaultCommand)
	}
	setDefault(&c.Keys, 1_000_000)
	setDefault(&c.Distribution, Uniform)
	setDefault(&c.ZipfS, 1.1)
	setDefault(&c.Connections, 50)
	setDefault(&c.Pipeline, 1)
	setDefault(&c.Timeout, 10*time.Second)
	if c.Requests == 0 && c.Duration == 0 {
		c.Duration = 10 * time.Second
	}
	switch {
	case c.Connections < 1 || c.Connections > maxConnections:
		return c, fmt.Errorf("connections must be 1 to %d", maxConnections)
	case c.Pipeline < 1 || c.Pipeline > maxPipeline:
		return c, fmt.Errorf("pipeline must be 1 to %d", maxPipeline)
	case c.Keys > maxKeys:
		return c, fmt.Errorf("keys must be 1 to %d", uint64(maxKeys))
	case c.Rate > maxRate:
		return c, fmt.Errorf("rate must be at most %d a second", maxRate)
	case c.Rate > 0 && c.Requests/c.Rate > uint64(maxDuration/time.Second):
		return c, errors.New("that many requests take too long at this rate")
	case c.Duration < 0 || c.Warmup < 0 || c.Timeout < 0 || max(c.Duration, c.Warmup) > maxDuration:
		return c, errors.New("a duration is out of range")
	case !(c.ZipfS > 1 && c.ZipfS <= 100):
		return c, errors.New("zipf's exponent must be above 1 and at most 100")
	}
	if err := c.Distribution.check(); err != nil {
		return c, err
	}
	if c.Cluster && c.Distribution != Uniform && c.Distribution != Zipf {
		return c, errors.New("with --cluster, keys are drawn: the distribution must be uniform or zipf")
	}
	if c.Dial == nil {
		c.Dial = dialer(c.Addr)
	}
	if c.newNap == nil {
		c.newNap = newNap
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func dialer(addr string) func(context.Context) (net.Conn, error) {
	network := "tcp"
	if strings.ContainsRune(addr, '/') {
		network = "unix"
	}
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
	}
}

// run is a run in progress. Its fields do not change after the start, except for the counters.
type run struct {
	Config
	template *template
	stats    *stats
	cluster  *cluster // nil for a single server
	// start is when the first request is due, measureFrom when the warm-up ends, and stopAt when no further
	// request begins, zero for never.
	start, measureFrom, stopAt time.Time
	// begun counts the requests of the measurement that a closed loop has begun.
	begun atomic.Uint64
}

// Run connects, sends requests and returns what it measured. When ctx ends, it stops and returns the results
// so far. A lost connection ends the run with an error. Error replies are counted and do not end it.
func Run(ctx context.Context, c Config) (*Result, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{Config: c, stats: newStats(c.Connections)}
	if r.template, err = newTemplate(c.Command); err != nil {
		return nil, err
	}
	if c.Cluster {
		if len(r.template.digits) == 0 {
			return nil, errors.New("--cluster needs " + Placeholder + " in the command")
		}
		if r.cluster, err = discover(ctx, &r.Config); err != nil {
			return nil, err
		}
	}
	workers, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer closeAll(workers)
	return r.measure(ctx, workers)
}

// connect opens all connections before the first request is sent.
func (r *run) connect(ctx context.Context) ([]*worker, error) {
	workers := make([]*worker, 0, r.Connections)
	for i := range r.Connections {
		w, err := r.open(ctx, i)
		if err != nil {
			closeAll(workers)
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, r.Connections, err)
		}
		workers = append(workers, w)
	}
	return workers, nil
}

func (r *run) open(ctx context.Context, index int) (*worker, error) {
	dial := r.Dial
	if r.cluster != nil {
		dial = dialer(r.cluster.nodes[index%len(r.cluster.nodes)])
	}
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	w := newWorker(r, index, conn)
	if err := authenticate(conn, r.Password, r.Timeout); err != nil {
		conn.Close()
		return nil, err
	}
	return w, nil
}

func closeAll(workers []*worker) {
	for _, w := range workers {
		w.conn.Close()
	}
}

// measure runs the workers, and reads their figures once a second.
func (r *run) measure(ctx context.Context, workers []*worker) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.start = time.Now()
	r.measureFrom = r.start.Add(r.Warmup)
	if r.Duration > 0 {
		r.stopAt = r.measureFrom.Add(r.Duration)
	}

	errs := make(chan error, len(workers)+1)
	var wg sync.WaitGroup
	begin := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				errs <- err
				cancel() // stops the others as well
			}
		})
	}
	for _, w := range workers {
		begin(func() error { return w.work(ctx) })
	}
	if r.Rate > 0 {
		begin(func() error { return r.pace(ctx, workers) })
	}
	finished := make(chan struct{})
	go func() {
		wg.Wait()
		close(finished)
	}()
	cpu := r.watch(finished)
	select {
	case err := <-errs:
		return nil, err
	default:
		return r.result(time.Now(), cpu), nil
	}
}

// cpuUsed is CPU time between the end of the warm-up and the end of the run.
type cpuUsed struct {
	server, client       time.Duration
	haveServer, measured bool
}

// watch reads the figures until finished is closed, and the CPU time at both ends of the measurement.
func (r *run) watch(finished <-chan struct{}) cpuUsed {
	var begin, used cpuUsed
	sample := func() (c cpuUsed) {
		c.client = ownCPU()
		if r.PID != 0 {
			var err error
			c.server, err = processCPU(r.PID)
			c.haveServer = err == nil
		}
		c.measured = true
		return c
	}
	if r.Warmup == 0 {
		begin = sample()
	}
	warm := time.NewTimer(time.Until(r.measureFrom))
	defer warm.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := r.start
	for {
		select {
		case <-warm.C:
			if !begin.measured {
				begin = sample()
			}
		case <-tick.C:
			now := time.Now()
			r.report(now, now.Sub(last))
			last = now
		case <-finished:
			if begin.measured {
				end := sample()
				used = cpuUsed{
					server: end.server - begin.server, client: end.client - begin.client,
					haveServer: begin.haveServer && end.haveServer, measured: true,
				}
			}
			r.stats.collect()
			return used
		}
	}
}

// report passes the figures of the last interval to Progress. Reading them regularly also prevents a long
// first read of the shards' histograms at the end.
func (r *run) report(now time.Time, interval time.Duration) {
	recent := r.stats.collect()
	if r.Progress == nil {
		return
	}
	p := Progress{
		Warming:   now.Before(r.measureFrom),
		Elapsed:   now.Sub(r.measureFrom),
		Requests:  r.stats.total.requests,
		Errors:    r.stats.total.errors,
		PerSecond: float64(recent.latency.TotalCount()) / interval.Seconds(),
		P50:       time.Duration(recent.latency.ValueAtQuantile(50)),
		P99:       time.Duration(recent.latency.ValueAtQuantile(99)),
	}
	if p.Warming {
		p.Elapsed = now.Sub(r.start)
	}
	r.Progress(p)
}

// PIDOf asks the server at addr for its process id, if the server is on this machine: at a unix socket or a
// loopback address. It returns 0 if the server is elsewhere or does not report its id.
func PIDOf(ctx context.Context, c Config) int {
	c, err := c.withDefaults()
	if err != nil {
		return 0
	}
	conn, err := c.Dial(ctx)
	if err != nil {
		return 0
	}
	defer conn.Close()
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		return 0
	}
	if authenticate(conn, c.Password, c.Timeout) != nil {
		return 0
	}
	pid, err := askPID(conn, c.Timeout)
	if err != nil {
		return 0
	}
	// If the server is in another container, the number means another process, or none.
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/stat", pid)); err != nil {
		return 0
	}
	return pid
}
