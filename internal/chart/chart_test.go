package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// wellFormed parses a drawing as XML, which a standalone SVG must be.
func wellFormed(t interface{ Fatalf(string, ...any) }, svg string) {
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
	}
}

// Whatever the names and values, a drawing is well-formed, has no markup from them, and no coordinate that is
// not a number.
func TestDrawingsAreWellFormed(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(0, 1e9), rapid.SampledFrom([]float64{0, 1, math.Inf(1), math.NaN(), 1e300}))
	rapid.Check(t, func(t *rapid.T) {
		name := func(label string) string {
			return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"<script>", "&amp;", "a\x00\xffb", `"'`})).Draw(t, label)
		}
		standalone := rapid.Bool().Draw(t, "standalone")
		lines := Lines{
			Title: name("title"), Width: 600, Height: 200, XLabel: name("x"), YLabel: name("y"),
			X: Linear(value.Draw(t, "most x"), 5, nil), Y: Linear(value.Draw(t, "most y"), 5, nil), LogX: rapid.Bool().Draw(t, "log"),
		}
		strips := Strips{
			Title: name("title"), Width: 600, XLabel: name("x"), X: Clock(0, rapid.Int64Range(0, 1<<62).Draw(t, "to"), 6), Span: 1e9,
			Whole: name("whole"), Part: name("part"), Alarm: rapid.Bool().Draw(t, "alarm"),
		}
		for range rapid.IntRange(0, 12).Draw(t, "series") {
			s := Series{Name: name("name"), Steps: rapid.Bool().Draw(t, "steps"), Dots: rapid.Bool().Draw(t, "dots")}
			for range rapid.IntRange(0, 5).Draw(t, "points") {
				s.Points = append(s.Points, Point{value.Draw(t, "x"), value.Draw(t, "y")})
			}
			lines.Series = append(lines.Series, s)
			strips.Rows = append(strips.Rows, Strip{
				Name: name("row"), Note: name("note"),
				Whole: rapid.SliceOfN(rapid.Float64Range(0, 1e6), 0, 300).Draw(t, "whole"), Part: rapid.SliceOfN(rapid.Float64Range(0, 1e6), 0, 300).Draw(t, "part"),
			})
		}
		for _, svg := range []string{lines.SVG(standalone), strips.SVG(standalone)} {
			wellFormed(t, svg)
			for _, bad := range []string{"NaN", "Inf", "<script"} {
				// A name may contain it, but a coordinate may not.
				if strings.Contains(svg, `"`+bad) || bad == "<script" && strings.Contains(svg, bad) {
					t.Fatalf("%s in %s", bad, svg)
				}
			}
		}
	})
}

func labels(ticks []Tick) string {
	var all []string
	for _, t := range ticks {
		all = append(all, t.Label)
	}
	return strings.Join(all, " ")
}

func TestTicks(t *testing.T) {
	at := func(s string) int64 {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixNano()
	}
	noon := at("2026-03-01T12:00:10Z")
	for _, test := range []struct{ got, want string }{
		{labels(Linear(100, 4, nil)), "0 50 100"},
		{labels(Linear(83, 5, nil)), "0 20 40 60 80 100"},
		{labels(Linear(0.07, 4, nil)), "0 0.02 0.04 0.06 0.08"},
		{labels(Linear(45_000, 3, nil)), "0 20k 40k 60k"},
		{labels(Linear(2.5e6, 3, nil)), "0 1M 2M 3M"},
		{labels(Linear(0, 4, nil)), "0 0.5 1"},
		{labels(Clock(noon, noon+20e9, 5)), "12:00:10 12:00:15 12:00:20 12:00:25 12:00:30"},
		{labels(Clock(noon, noon+3600e9, 4)), "12:15 12:30 12:45 13:00"},
		{labels(Clock(noon, noon+3*86_400e9, 4)), "Mar 2 Mar 3 Mar 4"},
		{labels(Clock(noon, noon+2000*86_400e9, 4)), "2027-10-21 2029-10-18"},
		{labels(Clock(noon, noon, 4)), "12:00:10"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}

// The last tick of an axis is at or above the maximum.
func TestLinearCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, n := rapid.Float64Range(1e-9, 1e15).Draw(t, "most"), rapid.IntRange(1, 12).Draw(t, "n")
		ticks := Linear(most, n, nil)
		if last := ticks[len(ticks)-1].Value; last < most*(1-1e-6) || len(ticks) > n+2 {
			t.Fatalf("%v for %v", ticks, most)
		}
	})
}
