package config

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"
)

// Share is a size in bytes, or a percentage of another size.
type Share struct{ number } // v is the size, or minus the percentage

var errShare = errors.New("argument must be a memory or percent value")

// Get returns the current value in bytes. A percentage is that of whole.
func (h *Share) Get(whole int64) int64 {
	n := h.v.Load()
	if n >= 0 {
		return n
	}
	// The result is at most whole, so it fits.
	high, low := bits.Mul64(uint64(max(0, whole)), uint64(-n))
	part, _ := bits.Div64(high, low, 100)
	return int64(part)
}

func (h *Share) parse(words []string) (string, error) {
	w, err := one(words)
	if err != nil {
		return "", err
	}
	if digits, percent := strings.CutSuffix(w, "%"); percent {
		n, err := strconv.ParseUint(digits, 10, 8)
		if err != nil || n > 100 {
			return "", errShare
		}
		return strconv.FormatUint(n, 10) + "%", nil
	}
	n, err := parseSize(w)
	if err != nil {
		return "", errShare
	}
	return h.accept(n)
}

func (h *Share) store(text string) {
	digits, percent := strings.CutSuffix(text, "%")
	n, _ := strconv.ParseInt(digits, 10, 64)
	if percent {
		n = -n
	}
	h.v.Store(n)
}

func (h *Share) spell(text string) string {
	if strings.HasSuffix(text, "%") {
		return text
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return formatSize(n)
}

func (h *Share) limits() string {
	return formatSize(h.min) + " to " + formatSize(h.max) + ", or 0% to 100%"
}
