// Package chart draws small SVG charts: [Lines] over two axes, and [Strips], rows
// of bars over one time axis. The SVG has no scripts and fetches nothing. Its
// colours suit light and dark; see [CSS].
//
// It is for pictures only, so it calculates in floats.
package chart

import (
	"math"
	"strconv"
	"strings"
)

// CSS is the style that the drawings need: within a page, once, in its style
// element. A drawing of its own has it inside. There are no CSS variables in it, for
// not everything that shows SVG knows them.
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

// colours are those on light and on dark paper.
var colours = [...]struct{ selector, property, light, dark string }{
	{".paper", "fill", "#fff", "#0d1117"},
	{"text", "fill", "#1f2328", "#e6edf3"},
	{".soft", "fill", "#59636e", "#9198a1"},
	{".grid", "stroke", "#d8dee4", "#30363d"},
	{".whole", "fill", "#c8d1da", "#3d444d"},
	{".part", "fill", "#0969da", "#4493f8"},
	{".alarm", "fill", "#cf222e", "#f85149"},
	{".c0", "stroke", "#0969da", "#4493f8"},
	{".c1", "stroke", "#bc4c00", "#f0883e"},
	{".c2", "stroke", "#1a7f37", "#3fb950"},
	{".c3", "stroke", "#8250df", "#ab7df8"},
	{".c4", "stroke", "#cf222e", "#f85149"},
	{".c5", "stroke", "#9a6700", "#d29922"},
	{".c6", "stroke", "#1b7c83", "#39c5cf"},
	{".c7", "stroke", "#bf3989", "#f778ba"},
	{".c8", "stroke", "#57606a", "#9198a1"},
	{".c9", "stroke", "#4d2d00", "#d4a373"},
}

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
		s.WriteString("<style>" + CSS() + "</style>\n" +
			`<rect class="paper" width="100%" height="100%" rx="6"/>` + "\n")
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
