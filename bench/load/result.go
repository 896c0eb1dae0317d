package load

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run measured. Times are in ns.
type Result struct {
	Addr         string       `json:"addr"`
	Command      string       `json:"command"`
	Connections  int          `json:"connections"`
	Pipeline     int          `json:"pipeline"`
	Distribution Distribution `json:"distribution"`
	Keys         uint64       `json:"keys"`
	Seed         uint64       `json:"seed"`
	// Rate is the requested rate in an open loop, 0 in a closed loop.
	Rate uint64 `json:"rate"`

	Seconds           float64 `json:"seconds"`
	Requests          uint64  `json:"requests"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	// Limited counts denials.
	Limited uint64 `json:"limited"`
	// Errors counts error replies. FirstError is the text of the first, quoted.
	Errors     uint64 `json:"errors"`
	FirstError string `json:"first_error,omitempty"`

	// Latency is the time from when a request was sent, or was due in an open loop, to when its reply was
	// read.
	Latency Latency `json:"latency_ns"`
	// SendLag is how late the generator itself was in an open loop: the time from when a request was due to
	// when it was sent. It is included in Latency.
	SendLag *Latency `json:"send_lag_ns,omitempty"`

	// ServerCPU and ClientCPU are the CPU time of the server and of the generator for each request. They are
	// 0 if unknown.
	ServerCPU int64 `json:"server_cpu_ns_per_request,omitempty"`
	ClientCPU int64 `json:"client_cpu_ns_per_request,omitempty"`
}

// Latency summarises a histogram, in ns, to three digits.
type Latency struct {
	Min   int64 `json:"min"`
	Mean  int64 `json:"mean"`
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P99   int64 `json:"p99"`
	P999  int64 `json:"p999"`
	P9999 int64 `json:"p9999"`
	Max   int64 `json:"max"`
}

func newLatency(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	return Latency{
		Min: h.Min(), Mean: int64(h.Mean()),
		P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90), P99: h.ValueAtQuantile(99),
		P999: h.ValueAtQuantile(99.9), P9999: h.ValueAtQuantile(99.99), Max: h.Max(),
	}
}

// result summarises the run. end is when the last reply came.
func (r *run) result(end time.Time, cpu cpuUsed) *Result {
	t := r.stats.total
	res := &Result{
		Addr: r.Addr, Command: strings.Join(r.Command, " "),
		Connections: r.Connections, Pipeline: r.Pipeline,
		Distribution: r.Distribution, Keys: r.Keys, Seed: r.Seed, Rate: r.Rate,
		Requests: t.requests, Limited: t.denied, Errors: t.errors, FirstError: t.firstError,
		Latency: newLatency(t.latency),
	}
	if r.Rate > 0 {
		lag := newLatency(t.lag)
		res.SendLag = &lag
	}
	if elapsed := end.Sub(r.measureFrom); elapsed > 0 && t.requests > 0 {
		res.Seconds = round(elapsed.Seconds(), 1000)
		res.RequestsPerSecond = round(float64(t.requests)/elapsed.Seconds(), 10)
	}
	if n := int64(t.requests); cpu.measured && n > 0 {
		res.ClientCPU = int64(cpu.client) / n
		if cpu.haveServer {
			res.ServerCPU = int64(cpu.server) / n
		}
	}
	return res
}

func round(v, parts float64) float64 { return math.Round(v*parts) / parts }

// WriteJSON writes the result as one indented object.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the result as a table for people.
func (r *Result) WriteTable(w io.Writer) error {
	var b strings.Builder
	keys := fmt.Sprintf("%s over %d keys", r.Distribution, r.Keys)
	if r.Distribution == Single {
		keys = "one key"
	}
	loop := "closed loop"
	if r.Rate > 0 {
		loop = fmt.Sprintf("open loop at %d/s", r.Rate)
	}
	fmt.Fprintf(&b, "%s\n%s, connections %d, pipeline %d, %s, %s, %.1f s\n\n",
		r.Command, r.Addr, r.Connections, r.Pipeline, keys, loop, r.Seconds)
	fmt.Fprintf(&b, "%-14s %d  %s/s\n", "requests", r.Requests, amount(r.RequestsPerSecond))
	if r.Limited > 0 {
		fmt.Fprintf(&b, "%-14s %d  %.1f %%\n", "limited", r.Limited, 100*float64(r.Limited)/float64(r.Requests))
	}
	if r.Errors > 0 {
		fmt.Fprintf(&b, "%-14s %d  first: %s\n", "errors", r.Errors, r.FirstError)
	}
	fmt.Fprintf(&b, "%-14s %s\n", "latency", r.Latency)
	if r.SendLag != nil {
		fmt.Fprintf(&b, "%-14s %s\n", "sent late by", r.SendLag)
	}
	for _, c := range []struct {
		name string
		ns   int64
	}{{"server CPU", r.ServerCPU}, {"generator CPU", r.ClientCPU}} {
		if c.ns > 0 {
			fmt.Fprintf(&b, "%-14s %s for each request, %.2f of a core\n",
				c.name, span(c.ns), float64(c.ns)*r.RequestsPerSecond/1e9)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String returns the figures on one line.
func (l Latency) String() string {
	return fmt.Sprintf("mean %s  p50 %s  p90 %s  p99 %s  p99.9 %s  p99.99 %s  max %s",
		span(l.Mean), span(l.P50), span(l.P90), span(l.P99), span(l.P999), span(l.P9999), span(l.Max))
}

// span prints a duration in ns with about three digits.
func span(ns int64) string {
	v, unit := float64(ns), "ns"
	for _, u := range []string{"µs", "ms", "s"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, u
	}
	if unit == "ns" {
		return fmt.Sprintf("%d ns", ns)
	}
	return digits(v) + " " + unit
}

// amount prints a count with about three digits.
func amount(v float64) string {
	unit := ""
	for _, u := range []string{" k", " M", " G"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, u
	}
	return digits(v) + unit
}

func digits(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
