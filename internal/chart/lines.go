package chart

import (
	"math"
	"strconv"
)

// narrow is the width, in pixels, below which names are below or above a drawing, not beside it.
const narrow = 600

// Lines is a chart of one or more lines over two axes. The legend is beside it, or below it if the chart is
// narrow. Height does not include the legend.
type Lines struct {
	Title         string
	Width, Height int
	// XLabel and YLabel are the labels below and above the axes.
	XLabel, YLabel string
	// X and Y are the ticks. The first and the last are the ends of the axis. LogX makes the X axis
	// logarithmic.
	X, Y   []Tick
	LogX   bool
	Series []Series
}

// Series is one line.
type Series struct {
	Name string
	// Style is the number of the line's colour and dashes. The first 36 differ.
	Style  int
	Points []Point
	// Steps draws the line as a step function; Dots marks each point.
	Steps bool
	Dots  bool
}

// Point is a point of a line, in the units of the axes.
type Point struct{ X, Y float64 }

// SVG draws the chart, for a page that has CSS or as a standalone drawing.
func (c *Lines) SVG(standalone bool) string {
	var s svg
	const top, left, bottom, letter, lineHeight = 30.0, 52.0, 40.0, 8.6, 18.0
	right, floor := float64(c.Width)-16, float64(c.Height)-bottom
	legendX, legendY, height := left, float64(c.Height)+lineHeight/2, c.Height
	switch {
	case len(c.Series) < 2:
	case c.Width < narrow:
		height += lineHeight * (len(c.Series) + 1)
	default:
		legend := 0
		for _, l := range c.Series {
			legend = max(legend, min(len([]rune(l.Name)), longestName))
		}
		right = float64(c.Width) - min(float64(legend)*letter+48, float64(c.Width)*0.45)
		legendX, legendY = right+12, top
	}
	s.open(c.Width, height, c.Title, standalone)
	if len(c.X) < 2 || len(c.Y) < 2 {
		return s.close()
	}
	x := scale(c.X, left, right, c.LogX)
	y := scale(c.Y, floor, top, false)

	s.text(left, 16, "soft", c.YLabel)
	s.text((left+right)/2, float64(c.Height)-6, "soft mid", c.XLabel)
	for _, t := range c.Y {
		s.line(left, y(t.Value), right, y(t.Value))
		s.text(left-8, y(t.Value)+4, "soft end", t.Label)
	}
	for _, t := range c.X {
		s.line(x(t.Value), floor, x(t.Value), floor+4)
		s.text(x(t.Value), floor+18, "soft mid", t.Label)
	}
	for i, l := range c.Series {
		s.series(&l, x, y)
		if len(c.Series) > 1 {
			at := legendY + lineHeight*float64(i)
			s.swatch(l.Style, legendX, at)
			s.text(legendX+32, at+4, "", cut(l.Name))
		}
	}
	return s.close()
}

// longestName is how much of a name the legend shows; the line's title has all of it.
const longestName = 36

func cut(name string) string {
	if r := []rune(name); len(r) > longestName {
		return string(r[:longestName-1]) + "…"
	}
	return name
}

// stroke returns the attributes of a line of this style.
func stroke(style int) string {
	return ` class="line c` + strconv.Itoa(style%palette) + `" stroke-dasharray="` + dashes[style%len(dashes)] + `"`
}

func (s *svg) swatch(style int, x, y float64) {
	s.WriteString("<path" + stroke(style) + ` d="M` + num(x) + " " + num(y) + "h26\"/>\n")
}

func (s *svg) series(l *Series, x, y func(float64) float64) {
	if len(l.Points) == 0 {
		return
	}
	s.WriteString("<g><title>" + escape(l.Name) + "</title>")
	s.WriteString("<path" + stroke(l.Style) + ` d="`)
	var lastX, lastY string
	for i, p := range l.Points {
		px, py := num(x(p.X)), num(y(p.Y))
		switch {
		case i == 0:
			s.WriteString("M" + px + " " + py)
		case px == lastX && py == lastY:
			continue
		case l.Steps:
			s.WriteString("H" + px + "V" + py)
		default:
			s.WriteString("L" + px + " " + py)
		}
		lastX, lastY = px, py
	}
	s.WriteString(`"/>`)
	if l.Dots {
		for _, p := range l.Points {
			// A dot is a line of length zero with round ends.
			s.WriteString(`<path class="c` + strconv.Itoa(l.Style%palette) + `" stroke-width="7" stroke-linecap="round" d="M` +
				num(x(p.X)) + " " + num(y(p.Y)) + `h0"/>`)
		}
	}
	s.WriteString("</g>\n")
}

// scale returns a function that maps the values from the first to the last tick to from … to.
func scale(ticks []Tick, from, to float64, log bool) func(float64) float64 {
	f := func(v float64) float64 { return v }
	if log {
		f = math.Log10
	}
	a, b := f(ticks[0].Value), f(ticks[len(ticks)-1].Value)
	return func(v float64) float64 {
		part := (f(v) - a) / (b - a)
		if math.IsNaN(part) {
			part = 0
		}
		return from + (to-from)*min(max(part, 0), 1)
	}
}
