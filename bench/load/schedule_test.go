package load

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestScheduleDue(t *testing.T) {
	for _, c := range []struct {
		s    schedule
		k    uint64
		want time.Duration
	}{
		{schedule{rate: 1000, pipeline: 1, connections: 1, index: 0}, 0, 0},
		{schedule{rate: 1000, pipeline: 1, connections: 1, index: 0}, 7, 7 * time.Millisecond},
		{schedule{rate: 1000, pipeline: 1, connections: 4, index: 3}, 0, 3 * time.Millisecond},
		{schedule{rate: 1000, pipeline: 1, connections: 4, index: 3}, 2, 11 * time.Millisecond},
		{schedule{rate: 1000, pipeline: 16, connections: 4, index: 1}, 1, 80 * time.Millisecond},
		{schedule{rate: 3, pipeline: 1, connections: 1, index: 0}, 1, 333_333_333},
		{schedule{rate: 3, pipeline: 1, connections: 1, index: 0}, 3_000_000, 1_000_000 * time.Second},
		{schedule{rate: maxRate, pipeline: maxPipeline, connections: maxConnections, index: 1}, 60_000, 2_576_980_378_255_360},
	} {
		if got := c.s.due(c.k); got != c.want {
			t.Errorf("%+v: pipeline %d is due after %d, want %d", c.s, c.k, got, c.want)
		}
	}
}

// All connections together send what was requested: every pipeline that is due before the end, at regular
// intervals.
func TestScheduleAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Connections: rapid.IntRange(1, 20).Draw(t, "connections"),
			Pipeline:    rapid.IntRange(1, 20).Draw(t, "pipeline"),
			Rate:        rapid.Uint64Range(1, 5000).Draw(t, "rate"),
			Warmup:      time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "warmup")),
			Duration:    time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "duration")),
			Requests:    rapid.Uint64Range(0, 3000).Draw(t, "requests"),
		}
		if c.Duration == 0 && c.Requests == 0 {
			c.Requests = 1
		}
		// The plain way: number the pipelines and stop at the first that is too many.
		var want, measured uint64
		for {
			due := time.Duration(want * uint64(c.Pipeline) * uint64(time.Second) / c.Rate)
			if c.Duration > 0 && due >= c.Warmup+c.Duration {
				break
			}
			if due >= c.Warmup {
				if c.Requests > 0 && measured*uint64(c.Pipeline) >= c.Requests {
					break
				}
				measured++
			}
			want++
		}
		dues := map[time.Duration]int{}
		var got uint64
		for i := range c.Connections {
			s := &schedule{rate: c.Rate, pipeline: uint64(c.Pipeline), connections: uint64(c.Connections), index: uint64(i)}
			n := s.count(&c)
			got += n
			for k := range n {
				dues[s.due(k)]++
			}
		}
		if got != want {
			t.Fatalf("%+v: %d pipelines, want %d", c, got, want)
		}
		for n := range want {
			due := time.Duration(n * uint64(c.Pipeline) * uint64(time.Second) / c.Rate)
			if dues[due]--; dues[due] < 0 {
				t.Fatalf("%+v: none is due after %v", c, due)
			}
		}
	})
}
