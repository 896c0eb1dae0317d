// Package chart draws small SVG charts: [Lines] over two axes, and [Strips], rows of bars over one time axis.
// The SVG has no scripts and loads nothing. Its colours suit light and dark backgrounds; see [CSS].
//
// It calculates in floating point, since the results are only pictures.
package chart

import (
	"math"
	"strconv"
	"strings"
)

// CSS returns the style that the drawings need. A page has it once, in its style element; a standalone
// drawing contains it. It has no CSS variables, because some programs that show SVG do not know them.
func CSS() string {
	const fixed = `.chart{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}` +
		`.chart .name{font-weight:600}.chart .end{text-anchor:end}.chart .mid{text-anchor:middle}` +
		`.chart .grid{fill:none;shape-rendering:crispEdges}.chart .line{fill:none;stroke-width:2;stroke-linejoin:round}`
	var light, dark strings.Builder
	for _, c := range colours {
		light.WriteString(".chart " + c.selector + "{" + c.property + ":" + c.light + "}")
		dark.WriteString(".chart " + c.selector + "{" + c.property + ":" + c.dark + "}")
	}
	return fixed + light.String() + "@media(prefers-color-scheme:dark){" + dark.String() + "}"
}

// colours are the colours on a light and on a dark background.
var colours = [...]struct{ selector, property, light, dark string }{
	{".paper", "fill", "#fff", "#0d1117"},
	{"text", "fill", "#1f2328", "#e6edf3"},
	{".soft", "fill", "#59636e", "#9198a1"},
	{".grid", "stroke", "#d8dee4", "#30363d"},
	{".whole", "fill", "#c8d1da", "#3d444d"},
	{".part", "fill", "#0969da", "#4493f8"},
	{".alarm", "fill", "#cf222e", "#f85149"},
	{".c0", "stroke", "#4f29fd", "#1c7fff"},
	{".c1", "stroke", "#008b1b", "#8d9e0b"},
	{".c2", "stroke", "#ff4e91", "#ff4cac"},
	{".c3", "stroke", "#07a2ae", "#15e2b7"},
	{".c4", "stroke", "#8c061b", "#d2000d"},
	{".c5", "stroke", "#9a7ef0", "#bcb8ff"},
	{".c6", "stroke", "#431c91", "#007547"},
	{".c7", "stroke", "#535d61", "#ffbb04"},
	{".c8", "stroke", "#a400c0", "#a41eb3"},
}

// palette is the number of colours for series, which the colour-blind can tell apart too.
const palette = 9

// dashes are the second sign of a series.
var dashes = [...]string{"none", "8 3", "2 3", "9 3 2 3"}

// svg builds a drawing.
type svg struct {
	strings.Builder
}

// open begins a drawing. Screen readers read title.
func (s *svg) open(width, height int, title string, standalone bool) {
	w, h := strconv.Itoa(width), strconv.Itoa(height)
	s.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" viewBox="0 0 ` + w + ` ` + h + `"`)
	if standalone {
		s.WriteString(` width="` + w + `" height="` + h + `"`)
	}
	s.WriteString(">\n<title>" + escape(title) + "</title>\n")
	if standalone {
		s.WriteString("<style>" + CSS() + "</style>\n" +
			`<rect class="paper" width="100%" height="100%" rx="6"/>` + "\n")
	}
}

func (s *svg) close() string {
	s.WriteString("</svg>\n")
	return s.String()
}

// text writes a text at x, y with the given classes.
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

// num prints a coordinate with one decimal.
func num(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// escape makes text safe inside an element or an attribute. Characters that XML cannot have become the
// replacement character.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}
