package chart

// Strips are rows of bars over one time axis. Each row shows a part in front of a whole. The names are beside
// the rows, or above them if the drawing is narrow.
type Strips struct {
	Title string
	Width int
	// Row is a row's height; 0 means 40.
	Row int
	// XLabel is the label below the axis. X are its ticks, and Span is its end; both count from 0.
	XLabel string
	X      []Tick
	Span   float64
	// Whole and Part are the names of the two in the legend.
	Whole, Part string
	// Alarm draws the part in red.
	Alarm bool
	Rows  []Strip
}

// Strip is a row. Its bars are equally wide and fill the axis.
type Strip struct {
	Name string
	// Note is written below the name, in a lighter style.
	Note string
	// Whole and Part are the heights of the bars.
	Whole, Part []float64
}

// SVG draws the strips, for a page that has CSS or as a standalone drawing.
func (c *Strips) SVG(standalone bool) string {
	const top, bottom, letter = 30, 40, 8.4
	gap, row := 10, c.Row
	if row == 0 {
		row = 40
	}
	names, most := 0, 1e-9
	for _, r := range c.Rows {
		names = max(names, len([]rune(r.Name)), len([]rune(r.Note)))
		for _, v := range r.Whole {
			most = max(most, v)
		}
		for _, v := range r.Part {
			most = max(most, v)
		}
	}
	left := min(float64(names)*letter+28, float64(c.Width)*0.4)
	if c.Width < narrow {
		left, gap = 14, 26
	}
	right := float64(c.Width) - 14
	floor := float64(top + (row+gap)*len(c.Rows))

	var s svg
	s.open(c.Width, int(floor)+bottom, c.Title, standalone)
	s.legend(c, left)
	x := func(v float64) float64 { return left + (right-left)*v/max(c.Span, 1e-9) }
	for _, t := range c.X {
		s.line(x(t.Value), top, x(t.Value), floor+2)
		s.text(x(t.Value), floor+18, "soft mid", t.Label)
	}
	s.text((left+right)/2, floor+34, "soft mid", c.XLabel)
	part := "part"
	if c.Alarm {
		part = "alarm"
	}
	for i, r := range c.Rows {
		base := float64(top + (row+gap)*i + row)
		middle := base - float64(row)/2
		switch {
		case c.Width < narrow:
			base += float64(gap) - 6
			s.text(left, base-float64(row)-4, "name", r.Name)
			if r.Note != "" {
				s.text(right, base-float64(row)-4, "soft end", r.Note)
			}
		case r.Note != "":
			s.text(14, middle-2, "name", r.Name)
			s.text(14, middle+14, "soft", r.Note)
		default:
			s.text(14, middle+4, "name", r.Name)
		}
		height := float64(row) / most
		s.bars("whole", r.Whole, left, right, base, height)
		s.bars(part, r.Part, left, right, base, height)
		s.line(left, base, right, base)
	}
	return s.close()
}

func (s *svg) legend(c *Strips, left float64) {
	part := "part"
	if c.Alarm {
		part = "alarm"
	}
	x := left
	for _, e := range [...]struct{ class, text string }{{"whole", c.Whole}, {part, c.Part}} {
		if e.text == "" {
			continue
		}
		s.WriteString(`<rect class="` + e.class + `" x="` + num(x) + `" y="8" width="12" height="12" rx="2"/>` + "\n")
		s.text(x+18, 18, "soft", e.text)
		x += 18 + 7*float64(len(e.text)) + 20
	}
}

// bars draws one area with a step for each value. If the bars are wide enough, it leaves a gap between them.
func (s *svg) bars(class string, values []float64, left, right, base, height float64) {
	if len(values) == 0 {
		return
	}
	width := (right - left) / float64(len(values))
	space := 0.0
	if width >= 4 {
		space = 1
	}
	s.WriteString(`<path class="` + class + `" d="`)
	for i := 0; i < len(values); i++ {
		v := values[i]
		if v <= 0 {
			continue
		}
		from := i
		// Adjacent bars of the same height without a gap are drawn as one.
		for space == 0 && i+1 < len(values) && values[i+1] == v {
			i++
		}
		a, b := left+width*float64(from), left+width*float64(i+1)-space
		s.WriteString("M" + num(a) + " " + num(base) + "V" + num(base-v*height) + "H" + num(b) + "V" + num(base) + "z")
	}
	s.WriteString("\"/>\n")
}
