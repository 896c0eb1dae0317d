package chart

import (
	"math"
	"strconv"
	"time"
)

// Tick is a value with a label.
type Tick struct {
	Value float64
	Label string
}

// Linear returns about n ticks from 0 to the first round number that is at least most. format prints a value;
// nil means as short as possible.
func Linear(most float64, n int, format func(float64) string) []Tick {
	if format == nil {
		format = short
	}
	if most <= 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		most = 1
	}
	step := round125(most / float64(max(n, 1)))
	var ticks []Tick
	for i := 0; ; i++ {
		v := float64(i) * step
		ticks = append(ticks, Tick{v, format(v)})
		if v >= most*(1-1e-9) {
			return ticks
		}
	}
}

// clockSteps are the distances between ticks of a time axis, in seconds.
var clockSteps = [...]int64{
	1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600,
	86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400, 91 * 86_400, 182 * 86_400, 364 * 86_400,
}

// Clock returns at most n ticks, in UTC, between two times in Unix ns. Their values are in ns after from.
func Clock(from, to int64, n int) []Tick {
	span := float64(to) - float64(from)
	step := clockSteps[len(clockSteps)-1]
	for i := len(clockSteps) - 1; i >= 0; i-- {
		if float64(clockSteps[i])*1e9*float64(n) < span {
			break
		}
		step = clockSteps[i]
	}
	for float64(step)*1e9*float64(n) < span {
		step *= 2
	}
	layout := "15:04:05"
	switch {
	case step >= 86_400 && span > 300*86_400e9:
		layout = "2006-01-02"
	case step >= 86_400:
		layout = "Jan 2"
	case step >= 60 && span >= 86_400e9:
		layout = "Jan 2 15:04"
	case step >= 60:
		layout = "15:04"
	}
	var ticks []Tick
	first := time.Unix(0, from).Unix()
	if first%step != 0 {
		first += step - first%step
	}
	for s := first; ; s += step {
		after := float64(s)*1e9 - float64(from)
		if after > span || len(ticks) > n {
			return ticks
		}
		if after >= 0 {
			ticks = append(ticks, Tick{after, time.Unix(s, 0).UTC().Format(layout)})
		}
	}
}

// round125 returns the smallest of 1, 2 and 5 times a power of ten that is at least v.
func round125(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range [...]float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// short prints a number, with k, M, G or T if it is large.
func short(v float64) string {
	for _, u := range [...]struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if v >= u.size {
			if u.name == "k" {
				u.size = 1e3
			}
			return strconv.FormatFloat(v/u.size, 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
