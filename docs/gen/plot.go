package gen

import (
	"fmt"

	"limitdb/internal/chart"
	"limitdb/limit"
	"limitdb/simulate"
)

// The traffic and the limit of the plot: 10 in 10 s.
const (
	plotRate   = "10/10s"
	plotPeriod = 10 * second
	plotLength = 80 * second
)

// plotTraffic asks for too much around the edge of a window, then steadily for twice the limit, then for
// exactly the limit, with rests in between.
func plotTraffic() (requests []simulate.Request) {
	evenly := func(from, to int64, n int64) {
		for i := range n {
			requests = append(requests, simulate.Request{Time: noon + from + (to-from)*i/n, Cost: 1})
		}
	}
	evenly(8*second, 10*second, 16)
	evenly(10*second, 12*second, 16)
	evenly(26*second, 46*second, 40)
	evenly(60*second, 75*second, 15)
	return requests
}

// Plot draws what each algorithm admits of the same traffic, second by second. Requests that QUEUE admits are
// drawn at the time when they may go.
func Plot() (string, error) {
	requests := plotTraffic()
	c := chart.Strips{
		Title: "Requests admitted by each algorithm under the same traffic", Width: 860, Row: 42,
		XLabel: "seconds; the limit is 10 in 10 s, and windows of the clock begin at the lines",
		Span:   float64(plotLength), Whole: "asked for", Part: "admitted",
	}
	for at := int64(0); at <= plotLength; at += plotPeriod {
		c.X = append(c.X, chart.Tick{Value: float64(at), Label: fmt.Sprint(at / second)})
	}
	asked := make([]float64, plotLength/second)
	for _, r := range requests {
		asked[(r.Time-noon)/second]++
	}
	for _, a := range limit.Algorithms() {
		l, err := Sample(a, plotRate)
		if err != nil {
			return "", err
		}
		row, err := plotRow(l, requests)
		if err != nil {
			return "", err
		}
		row.Whole = asked
		c.Rows = append(c.Rows, row)
	}
	return c.SVG(true), nil
}

// plotRow replays the traffic through one limit.
func plotRow(l limit.Limit, requests []simulate.Request) (chart.Strip, error) {
	r, err := simulate.NewReplay([]limit.Limit{l})
	if err != nil {
		return chart.Strip{}, err
	}
	row := chart.Strip{Part: make([]float64, plotLength/second)}
	admitted := 0
	for i := range requests {
		d := r.Add(&requests[i])[0]
		if d.Limited {
			continue
		}
		admitted++
		if at := (requests[i].Time - noon + max(d.Wait, 0)) / second; at < int64(len(row.Part)) {
			row.Part[at]++
		}
	}
	row.Name = l.Algorithm.String()
	if l.Segments > 0 {
		row.Name += fmt.Sprintf(", %d", l.Segments)
	}
	row.Note = fmt.Sprintf("%d of %d, %d in 10 s", admitted, len(requests), r.Result().Limits[0].Peak)
	return row, nil
}
