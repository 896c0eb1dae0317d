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
	"limitdb/rules"
)

// maxPanels is the maximum number of limits that a page shows over time and with their callers; tables and
// comparisons have all of them.
const (
	maxPanels = 40
	// maxOpen is how many lists of callers are open at first.
	maxOpen = 4
	// maxLines is how many lines people can tell apart in one chart.
	maxLines = 9
)

// Page describes a page of WriteHTML. Both fields are text, not HTML.
type Page struct {
	// About says what was replayed, for example the names of the files.
	About string
	// Command is the command line that made the page; "" if there is none.
	Command string
}

// WriteHTML writes the result as a single page that loads nothing: no scripts, no fonts, no pictures.
func (r *Result) WriteHTML(w io.Writer, p Page) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return err
	}
	sweeps := r.sweepCharts()
	r = r.merged()
	rows := r.rows()
	view := pageView{
		About: printable(p.About), Command: printable(p.Command), Summary: strings.Split(r.summary(), "\n"),
		Verdicts: r.verdicts("The lists below"), Advice: r.advice(),
		Style: template.CSS(chart.CSS() + pageCSS), Head: mergeHead(rows[0]),
		Sweeps: sweeps, Wait: r.waitChart(), Strips: r.strips(),
	}
	for i, o := range r.Limits {
		view.Rows = append(view.Rows, pageRow{Name: rows[i+1][0], Cells: rows[i+1][1:], Bar: fmt.Sprintf("%.2f", 100*o.DeniedShare), Error: o.Error, Errors: o.Errors})
		if i < maxPanels && len(o.Top) > 0 {
			view.Panels = append(view.Panels, panel(&o, len(view.Panels) < maxOpen))
		}
	}
	view.Holds = len(r.Limits) > 0 && r.Limits[0].Holds != nil
	view.Left = max(0, len(r.Limits)-maxPanels)
	return t.Execute(w, view)
}

// The widths of charts for wide and for narrow screens, in pixels. A page shows the one that fits, so that
// the letters keep their size.
const (
	wideChart   = 960
	narrowChart = 358
)

// both draws a chart at both widths.
func both(draw func(width int) string) template.HTML {
	return template.HTML(`<div class="wide">` + draw(wideChart) + `</div><div class="narrow">` + draw(narrowChart) + `</div>`)
}

// pageView is the data of the page's template.
type pageView struct {
	About    string
	Command  string
	Summary  []string
	Verdicts []string
	Advice   string
	Style    template.CSS
	Head     []pageHead
	Rows     []pageRow
	Sweeps   []template.HTML
	Wait     template.HTML
	Strips   template.HTML
	Panels   []pagePanel
	Left     int
	Holds    bool
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
	Open       bool
	Top        []pageCaller
}

type pageCaller struct {
	Caller, Requests, Denied, Share string
	Bar                             string
}

// mergeHead makes one head cell of a head and the empty cells after it.
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

func panel(o *Outcome, open bool) pagePanel {
	p := pagePanel{Name: o.Limit, Open: open, Peak: "Nothing was admitted."}
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

// maxBars is the maximum number of bars over time, about as many as people can tell apart.
const maxBars = 360

// printable replaces what a page cannot contain, since a key may have any bytes. The key of a rule's caller becomes the rule
// and the values.
func printable(key string) string {
	if rules.IsKey([]byte(key)) {
		return rules.KeyText(key)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(key, string(utf8.RuneError)))
}

// strips draws requests and denials over time, one row for each limit.
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
		Title: "Requests and denials over time", Row: 44, Alarm: true,
		XLabel: "UTC, bars of " + duration(width), Span: span,
		Whole: "requests", Part: "denied",
	}
	for i, o := range r.Limits[:min(len(r.Limits), maxPanels)] {
		c.Rows = append(c.Rows, chart.Strip{
			Name: o.Limit, Note: percent(o.DeniedShare) + " denied",
			Whole: requests, Part: merged(t.Denied[i], many),
		})
	}
	return both(func(width int) string {
		c.Width, c.X = width, chart.Clock(from, from+int64(span), width/120)
		return c.SVG(false)
	})
}

// merged adds up groups of many adjacent values.
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

// roundWaits are the possible ticks of an axis of waits, in ns.
var roundWaits = [...]int64{
	1, 10, 100, 1e3, 1e4, 1e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 10e9, 20e9, 30e9,
	60e9, 120e9, 300e9, 600e9, 1200e9, 1800e9, 3600e9, 2 * 3600e9, 4 * 3600e9, 8 * 3600e9, 12 * 3600e9,
	24 * 3600e9, 2 * 24 * 3600e9, 4 * 24 * 3600e9, 7 * 24 * 3600e9, 14 * 24 * 3600e9, 28 * 24 * 3600e9, 91 * 24 * 3600e9,
	365 * 24 * 3600e9, 3650 * 24 * 3600e9, 36500 * 24 * 3600e9,
}

// waitTicks returns about n ticks that include least and most.
func waitTicks(least, most int64, n int) (ticks []chart.Tick) {
	from, to := 0, len(roundWaits)-1
	for from < to && roundWaits[from+1] <= least {
		from++
	}
	for to > from+1 && roundWaits[to-1] > most {
		to--
	}
	step := (to-from)/n + 1
	if odd := (to - from) % step; odd > 0 && from >= step-odd {
		from -= step - odd // makes all of them equally far apart
	}
	for i := from; i < to; i += step {
		ticks = append(ticks, chart.Tick{Value: float64(roundWaits[i]), Label: duration(roundWaits[i])})
	}
	return append(ticks, chart.Tick{Value: float64(roundWaits[to]), Label: duration(roundWaits[to])})
}

// waitChart compares after how long denied callers may come back.
func (r *Result) waitChart() template.HTML {
	c := chart.Lines{
		Title: "How long the denied are told to wait", Height: 320, LogX: true,
		XLabel: "wait", YLabel: "% that wait no longer",
		Y: chart.Linear(100, 4, nil),
	}
	least, most := int64(0), int64(0)
	for _, o := range r.mostDenying() {
		s := chart.Series{Name: o.Limit, Style: len(c.Series), Steps: true}
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
	// Values far below a thousandth of the worst would only squeeze the rest.
	least = max(least, most/1e6, 1)
	c.Series = together(c.Series)
	return both(func(width int) string {
		c := c
		c.Width, c.X = width, waitTicks(least, most, width/95)
		c.Series = slices.Clone(c.Series)
		for i := range c.Series {
			s := &c.Series[i]
			s.Points = append(slices.Clip(s.Points), chart.Point{X: c.X[len(c.X)-1].Value, Y: 100})
		}
		return c.SVG(false)
	})
}

// mostDenying returns the limits that deny most with a wait, in the order of the table: as many as a chart
// can show.
func (r *Result) mostDenying() []Outcome {
	var all []Outcome
	for _, o := range r.Limits {
		if len(o.Wait.curve) > 0 {
			all = append(all, o)
		}
	}
	if len(all) > maxLines {
		counts := make([]uint64, len(all))
		for i := range all {
			counts[i] = all[i].Wait.Count
		}
		slices.Sort(counts)
		least := counts[len(counts)-maxLines]
		all = slices.DeleteFunc(all, func(o Outcome) bool { return o.Wait.Count < least })
		all = all[:min(len(all), maxLines)]
	}
	return all
}

// sweepCharts draws what changes with the limit, if the same algorithm was tried with several limits of the
// same options and period. It returns one pair of charts for each period.
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

// sweepLines returns a line for each algorithm with its options, or nil if each would have only one point.
func (r *Result) sweepLines(limits []int, y func(*Outcome) float64) (lines []chart.Series) {
	long := false
	for _, i := range limits {
		o := &r.Limits[i]
		n := slices.IndexFunc(lines, func(s chart.Series) bool { return s.Name == o.algorithm })
		if n < 0 {
			n = len(lines)
			lines = append(lines, chart.Series{Name: o.algorithm, Style: n, Dots: true})
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

// together merges equal lines into one, since the last would hide the others.
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
		Title: y, Height: max(300, 60+18*len(lines)), XLabel: x, YLabel: y,
		Y: chart.Linear(mostY, 5, nil), Series: lines,
	}
	return both(func(width int) string {
		c.Width, c.X = width, chart.Linear(mostX, width/120, nil)
		return c.SVG(false)
	})
}
