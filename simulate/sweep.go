package simulate

import (
	"errors"
	"fmt"
	"strings"

	"limitdb/limit"
)

// Sweep returns limits to compare: each of the algorithms at each of the rates.
//
// Rates are a list such as 50,100,200/m. The period after a slash also applies to the rates before it, back
// to the slash before. An algorithm is a name, with options if needed, such as "gcra burst 20". An empty list
// means every algorithm: SEGMENTED with ten segments, and LOG only if the rate is not above what it can hold.
// The error names the word that is wrong.
func Sweep(rates string, algorithms []string) ([]limit.Limit, error) {
	words, err := splitRates(rates)
	if err != nil {
		return nil, err
	}
	every := len(algorithms) == 0
	if every {
		for _, a := range limit.Algorithms() {
			algorithms = append(algorithms, a.Kind().TypeName())
		}
	}
	var limits []limit.Limit
	for _, algorithm := range algorithms {
		name, options, _ := strings.Cut(strings.TrimSpace(algorithm), " ")
		if a, _ := limit.Lookup([]byte(name)); a == limit.SEGMENTED && options == "" {
			options = "segments 10"
		}
		for _, rate := range words {
			text := strings.TrimSpace(name + " " + rate + " " + options)
			l, err := limit.Parse(text)
			// The first algorithm has reported any mistake in the rate itself.
			if every && len(limits) > 0 && errors.Is(err, limit.ErrMax) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%q: %w", text, err)
			}
			limits = append(limits, l)
		}
	}
	return limits, nil
}

// splitRates adds the period to each rate of a list.
func splitRates(list string) ([]string, error) {
	words := strings.Split(list, ",")
	period := ""
	for i := len(words) - 1; i >= 0; i-- {
		words[i] = strings.TrimSpace(words[i])
		rate, own, slash := strings.Cut(words[i], "/")
		if slash {
			period = own
		}
		if rate == "" || period == "" {
			return nil, fmt.Errorf("%q is not a list of rates such as 50,100,200/m", list)
		}
		words[i] = rate + "/" + period
	}
	return words, nil
}
