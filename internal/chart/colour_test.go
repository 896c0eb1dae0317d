package chart

import (
	"math"
	"strconv"
	"testing"
)

type vector [3]float64

type matrix [3]vector

func (m matrix) times(v vector) (out vector) {
	for i, row := range m {
		out[i] = row[0]*v[0] + row[1]*v[1] + row[2]*v[2]
	}
	return out
}

// visions map linear RGB to what people see: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
// Color Vision Deficiency" (2009), at full severity.
var visions = map[string]matrix{
	"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// seen returns the colour, such as "#0969da", in OKLab (Ottosson, 2020), where equal distances look alike.
func seen(t *testing.T, colour string, vision matrix) vector {
	n, err := strconv.ParseUint(colour[1:], 16, 24)
	if err != nil || len(colour) != 7 {
		t.Fatal(colour)
	}
	var rgb vector
	for i := range rgb {
		c := float64(n>>(16-8*i)&0xff) / 255
		if rgb[i] = math.Pow((c+0.055)/1.055, 2.4); c <= 0.04045 {
			rgb[i] = c / 12.92
		}
	}
	rgb = vision.times(rgb)
	for i := range rgb {
		rgb[i] = min(max(rgb[i], 0), 1)
	}
	cones := matrix{
		{0.4122214708, 0.5363325363, 0.0514459929}, {0.2119034982, 0.6806995451, 0.1073969566}, {0.0883024619, 0.2817188376, 0.6299787005},
	}.times(rgb)
	for i := range cones {
		cones[i] = math.Cbrt(cones[i])
	}
	return matrix{
		{0.2104542553, 0.7936177850, -0.0040720468}, {1.9779984951, -2.4285922050, 0.4505937099}, {0.0259040371, 0.7827717662, -0.8086757660},
	}.times(cones)
}

// Any two lines of a chart can be told apart, also by people who are colour-blind: no two of the nine colours are close, and lines
// next to each other in the legend differ in their dashes too.
func TestLinesCanBeToldApart(t *testing.T) {
	const least = 0.09 // people begin to see a difference at about 0.02
	lines := colours[len(colours)-palette:]
	for name, vision := range visions {
		for i, a := range lines {
			for j, b := range lines[:i] {
				for _, pair := range [][2]string{{a.light, b.light}, {a.dark, b.dark}} {
					p, q := seen(t, pair[0], vision), seen(t, pair[1], vision)
					if d := math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2]); d < least {
						t.Errorf("%s: lines %d and %d: %v are %.3f apart", name, j, i, pair, d)
					}
				}
			}
		}
	}
	styles := map[string]int{}
	for i := range palette * len(dashes) {
		if j, again := styles[stroke(i)]; again {
			t.Errorf("lines %d and %d have the style %s", j, i, stroke(i))
		}
		styles[stroke(i)] = i
		if dashes[i%len(dashes)] == dashes[(i+1)%len(dashes)] {
			t.Errorf("lines %d and %d have the same dashes", i, i+1)
		}
	}
}
