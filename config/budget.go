package config

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// Budget is a size in bytes, or auto: a size that the process finds by itself.
type Budget struct {
	number              // v is the size, -1 for auto
	found  atomic.Int64 // what auto means
}

// auto is the text of a Budget that the process finds by itself.
const auto = "auto"

// Get returns the current value in bytes.
func (h *Budget) Get() int64 {
	if n := h.v.Load(); n >= 0 {
		return n
	}
	return h.found.Load()
}

// Auto reports whether the process finds the value by itself.
func (h *Budget) Auto() bool { return h.v.Load() < 0 }

// Find makes auto mean this many bytes. Without it, auto is 0.
func (h *Budget) Find(bytes int64) { h.found.Store(bytes) }

func (h *Budget) parse(words []string) (string, error) {
	w, err := one(words)
	if err != nil {
		return "", err
	}
	if strings.EqualFold(w, auto) {
		return auto, nil
	}
	n, err := parseSize(w)
	if err != nil {
		return "", err
	}
	return h.accept(n)
}

func (h *Budget) store(text string) {
	if text == auto {
		h.v.Store(-1)
		return
	}
	h.number.store(text)
}

func (h *Budget) spell(text string) string {
	if text == auto {
		return auto
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return formatSize(n)
}

func (h *Budget) limits() string { return formatSize(h.min) + " to " + formatSize(h.max) + ", or auto" }
