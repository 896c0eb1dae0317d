// Package chart draws small SVG charts: [Lines] over two axes, and [Strips], rows
// of bars over one time axis. The SVG has no scripts and fetches nothing. Its
// colours are CSS variables with a light and a dark value; see [CSS].
//
// It is for pictures only, so it calculates in floats.
package chart

import (
	"math"
	"strconv"
	"strings"
)

// CSS is the style that the drawings need: within a page, once, in its style
// element. A drawing of its own has it inside.
const CSS = `.chart{--ink:#1f2328;--soft:#59636e;--grid:#d8dee4;--whole:#c8d1da;--part:#0969da;--paper:#fff;` +
	`--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#cf222e;--c5:#9a6700;--c6:#1b7c83;--c7:#bf3989;--c8:#57606a;--c9:#4d2d00;` +
	`font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}` +
	`@media(prefers-color-scheme:dark){.chart{--ink:#e6edf3;--soft:#9198a1;--grid:#30363d;--whole:#3d444d;--part:#4493f8;--paper:#0d1117;` +
	`--c0:#4493f8;--c1:#f0883e;--c2:#3fb950;--c3:#ab7df8;--c4:#f85149;--c5:#d29922;--c6:#39c5cf;--c7:#f778ba;--c8:#9198a1;--c9:#d4a373}}` +
	`.chart text{fill:var(--ink)}.chart .soft{fill:var(--soft)}.chart .name{font-weight:600}` +
	`.chart .end{text-anchor:end}.chart .mid{text-anchor:middle}` +
	`.chart .grid{stroke:var(--grid);fill:none;shape-rendering:crispEdges}` +
	`.chart .whole{fill:var(--whole)}.chart .part{fill:var(--part)}.chart .alarm{fill:var(--c4)}` +
	`.chart .line{fill:none;stroke-width:2;stroke-linejoin:round}`

// palette is how many colours of series there are.
const palette = 10

// svg gathers a drawing.
type svg struct {
	strings.Builder
}

// open begins a drawing; title is what a screen reader tells.
func (s *svg) open(width, height int, title string, standalone bool) {
	w, h := strconv.Itoa(width), strconv.Itoa(height)
	s.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" viewBox="0 0 ` + w + ` ` + h + `"`)
	if standalone {
		s.WriteString(` width="` + w + `" height="` + h + `"`)
	}
	s.WriteString(">\n<title>" + escape(title) + "</title>\n")
	if standalone {
		s.WriteString("<style>" + CSS + "</style>\n" +
			`<rect width="100%" height="100%" rx="6" fill="var(--paper)"/>` + "\n")
	}
}

func (s *svg) close() string {
	s.WriteString("</svg>\n")
	return s.String()
}

// text writes at x, y in the given classes.
func (s *svg) text(x, y float64, class, text string) {
	s.WriteString(`<text x="` + num(x) + `" y="` + num(y) + `"`)
	if class != "" {
		s.WriteString(` class="` + class + `"`)
	}
	s.WriteString(">" + escape(text) + "</text>\n")
}

// line draws a line of the grid.
func (s *svg) line(x1, y1, x2, y2 float64) {
	s.WriteString(`<path class="grid" d="M` + num(x1) + " " + num(y1) + "L" + num(x2) + " " + num(y2) + `"/>` + "\n")
}

// num prints a coordinate, to a tenth.
func num(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// escape makes text safe within an element and an attribute; what XML cannot hold
// becomes the replacement character.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}
