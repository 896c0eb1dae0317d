package simulate

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"limitdb/internal/chart"
)

// maxPanels is how many limits a page shows over time and with their callers;
// tables and comparisons have all of them.
const maxPanels = 40

// WriteHTML writes the result as one page that needs nothing else: no scripts, no
// fonts, no pictures from elsewhere. about says what was replayed, such as the
// files' names; it is text, not HTML.
func (r *Result) WriteHTML(w io.Writer, about string) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return err
	}
	rows := r.rows()
	view := pageView{
		About: about, Summary: strings.Split(r.summary(), "\n"),
		Style: template.CSS(chart.CSS() + pageCSS), Head: mergeHead(rows[0]),
		Sweeps: r.sweepCharts(), Wait: r.waitChart(), Strips: r.strips(),
	}
	for i, o := range r.Limits {
		view.Rows = append(view.Rows, pageRow{Name: rows[i+1][0], Cells: rows[i+1][1:], Bar: fmt.Sprintf("%.2f", 100*o.DeniedShare), Error: o.Error, Errors: o.Errors})
		if i < maxPanels {
			view.Panels = append(view.Panels, panel(&o))
		}
	}
	view.Left = len(r.Limits) - len(view.Panels)
	return t.Execute(w, view)
}

// pageView is what the page's template is filled with.
type pageView struct {
	About   string
	Summary []string
	Style   template.CSS
	Head    []pageHead
	Rows    []pageRow
	Sweeps  []template.HTML
	Wait    template.HTML
	Strips  template.HTML
	Panels  []pagePanel
	Left    int
}

type pageHead struct {
	Text string
	Span int
}

type pageRow struct {
	Name   string
	Cells  []string
	Bar    string
	Errors uint64
	Error  string
}

type pagePanel struct {
	Name, Peak string
	Top        []pageCaller
}

type pageCaller struct {
	Caller, Requests, Denied, Share string
	Bar                             string
}

// mergeHead makes one head cell of a head and the empty ones behind it.
func mergeHead(cells []string) (head []pageHead) {
	for _, c := range cells {
		if c == "" {
			head[len(head)-1].Span++
		} else {
			head = append(head, pageHead{c, 1})
		}
	}
	return head
}

func panel(o *Outcome) pagePanel {
	p := pagePanel{Name: o.Limit, Peak: "Nothing was admitted."}
	if o.Peak > 0 {
		p.Peak = fmt.Sprintf("Peak: %s admitted in %s to %s, at %s.",
			thousands(o.Peak), duration(o.Window), printable(o.PeakBy), o.PeakAt.Format(time.RFC3339Nano))
	}
	for _, c := range o.Top {
		s := share(c.Denied, c.Requests)
		p.Top = append(p.Top, pageCaller{printable(c.Caller), thousands(c.Requests), thousands(c.Denied), percent(s), fmt.Sprintf("%.2f", 100*s)})
	}
	return p
}

// maxBars is how many bars there are over time, about as many as the eye can tell
// apart.
const maxBars = 360

// printable replaces what cannot stand in a page, as a key may be any bytes.
func printable(key string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(key, string(utf8.RuneError)))
}

// strips shows requests and denials over time, a row for each limit.
func (r *Result) strips() template.HTML {
	t := &r.Timeline
	width := t.Width
	for _, ms := range widths {
		if width = ms * 1e6; width >= t.Width && int64(len(t.Requests))*t.Width <= maxBars*width {
			break
		}
	}
	many := int(width / t.Width)
	requests := merged(t.Requests, many)
	span := float64(width) * float64(len(requests))
	from := t.Start.UnixNano()
	c := chart.Strips{
		Title: "Requests and denials over time", Width: 960, Row: 44, Alarm: true,
		XLabel: "UTC, bars of " + duration(width), X: chart.Clock(from, from+int64(span), 8), Span: span,
		Whole: "requests", Part: "denied",
	}
	for i, o := range r.Limits[:min(len(r.Limits), maxPanels)] {
		c.Rows = append(c.Rows, chart.Strip{
			Name: o.Limit, Note: percent(o.DeniedShare) + " denied",
			Whole: requests, Part: merged(t.Denied[i], many),
		})
	}
	return template.HTML(c.SVG(false))
}

// merged adds up as many neighbours as many says.
func merged(row []uint64, many int) []float64 {
	out := make([]float64, 0, maxBars)
	for i, n := range row {
		if i%many == 0 {
			out = append(out, 0)
		}
		out[len(out)-1] += float64(n)
	}
	return out
}

// roundWaits are the ticks of an axis of waits, in ns.
var roundWaits = [...]int64{
	1, 10, 100, 1e3, 1e4, 1e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 10e9, 20e9, 30e9,
	60e9, 120e9, 300e9, 600e9, 1200e9, 1800e9, 3600e9, 2 * 3600e9, 4 * 3600e9, 8 * 3600e9, 12 * 3600e9,
	24 * 3600e9, 2 * 24 * 3600e9, 4 * 24 * 3600e9, 7 * 24 * 3600e9, 14 * 24 * 3600e9, 28 * 24 * 3600e9, 91 * 24 * 3600e9,
	365 * 24 * 3600e9, 3650 * 24 * 3600e9, 36500 * 24 * 3600e9,
}

// waitTicks are ticks around least and most, ten of them at most.
func waitTicks(least, most int64) (ticks []chart.Tick) {
	from, to := 0, len(roundWaits)-1
	for from < to && roundWaits[from+1] <= least {
		from++
	}
	for to > from+1 && roundWaits[to-1] > most {
		to--
	}
	step := (to-from)/10 + 1
	for i := from; i < to; i += step {
		ticks = append(ticks, chart.Tick{Value: float64(roundWaits[i]), Label: duration(roundWaits[i])})
	}
	return append(ticks, chart.Tick{Value: float64(roundWaits[to]), Label: duration(roundWaits[to])})
}

// waitChart compares after how long the denied may come back.
func (r *Result) waitChart() template.HTML {
	c := chart.Lines{
		Title: "How long the denied are told to wait", Width: 960, Height: 320, LogX: true,
		XLabel: "wait", YLabel: "of those denied with a wait, % that wait no longer",
		Y: chart.Linear(100, 4, nil),
	}
	least, most := int64(0), int64(0)
	for _, o := range r.Limits {
		if len(o.Wait.curve) == 0 || len(c.Series) == maxPanels {
			continue
		}
		s := chart.Series{Name: o.Limit, Steps: true}
		first := max(o.Wait.curve[0].ns, 1)
		s.Points = append(s.Points, chart.Point{X: float64(first)})
		for _, p := range o.Wait.curve {
			s.Points = append(s.Points, chart.Point{X: float64(max(p.ns, 1)), Y: 100 * p.share})
		}
		if least == 0 || first < least {
			least = first
		}
		most = max(most, o.Wait.Worst)
		c.Series = append(c.Series, s)
	}
	if len(c.Series) == 0 {
		return ""
	}
	// What is far below a thousandth of the worst would only squeeze the rest.
	least = max(least, most/1e6, 1)
	c.X = waitTicks(least, most)
	c.Series = together(c.Series)
	c.Height = max(c.Height, 60+18*len(c.Series))
	for i := range c.Series {
		s := &c.Series[i]
		s.Points = append(s.Points, chart.Point{X: c.X[len(c.X)-1].Value, Y: 100})
	}
	return template.HTML(c.SVG(false))
}

// sweepCharts draws what changes with the limit, if the same algorithm with the same
// options and period has been tried with several: one pair of charts for a period.
func (r *Result) sweepCharts() (charts []template.HTML) {
	var periods []int64
	byPeriod := map[int64][]int{}
	for i, o := range r.Limits {
		if _, known := byPeriod[o.Window]; !known {
			periods = append(periods, o.Window)
		}
		byPeriod[o.Window] = append(byPeriod[o.Window], i)
	}
	for _, period := range periods {
		denied := r.sweepLines(byPeriod[period], func(o *Outcome) float64 { return 100 * o.DeniedShare })
		peak := r.sweepLines(byPeriod[period], func(o *Outcome) float64 { return float64(o.Peak) })
		if denied == nil {
			continue
		}
		label := "limit per " + duration(period)
		charts = append(charts, sweepChart(denied, label, "Requests denied, %"),
			sweepChart(peak, label, "Peak admitted to one caller in any "+duration(period)))
	}
	return charts
}

// sweepLines makes a line for each algorithm with its options; nil if each would
// have one point only.
func (r *Result) sweepLines(limits []int, y func(*Outcome) float64) (lines []chart.Series) {
	long := false
	for _, i := range limits {
		o := &r.Limits[i]
		n := slices.IndexFunc(lines, func(s chart.Series) bool { return s.Name == o.algorithm })
		if n < 0 {
			n = len(lines)
			lines = append(lines, chart.Series{Name: o.algorithm, Dots: true})
		}
		lines[n].Points = append(lines[n].Points, chart.Point{X: float64(o.max), Y: y(o)})
		long = long || len(lines[n].Points) > 1
	}
	if !long {
		return nil
	}
	for _, l := range lines {
		slices.SortStableFunc(l.Points, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
	}
	return together(lines)
}

// together makes one of lines that are the same, for the last would hide the others.
func together(lines []chart.Series) (out []chart.Series) {
	for _, l := range lines {
		same := slices.IndexFunc(out, func(o chart.Series) bool { return slices.Equal(o.Points, l.Points) })
		if same < 0 {
			out = append(out, l)
		} else {
			out[same].Name += ", " + l.Name
		}
	}
	return out
}

func sweepChart(lines []chart.Series, x, y string) template.HTML {
	mostX, mostY := 0.0, 0.0
	for _, l := range lines {
		for _, p := range l.Points {
			mostX, mostY = max(mostX, p.X), max(mostY, p.Y)
		}
	}
	c := chart.Lines{
		Title: y, Width: 960, Height: max(300, 60+18*len(lines)), XLabel: x, YLabel: y,
		X: chart.Linear(mostX, 6, nil), Y: chart.Linear(mostY, 5, nil), Series: lines,
	}
	return template.HTML(c.SVG(false))
}
