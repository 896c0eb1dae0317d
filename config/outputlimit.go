package config

import (
	"errors"
	"strconv"
	"strings"
)

// OutputLimit is a size in bytes that CONFIG GET shows as Redis shows
// client-output-buffer-limit, by class of client: monitoring programs take
// that text apart. Here all classes share one hard limit and there is no soft
// one, so what is given is one size, or Redis' text if it says just that.
type OutputLimit struct{ number }

var errOneLimit = errors.New("argument must be one memory value, the limit of every client (classes with limits of their own and soft limits are not supported)")

// Get returns the current value in bytes.
func (h *OutputLimit) Get() int64 { return h.v.Load() }

func (h *OutputLimit) parse(words []string) (string, error) {
	fields := strings.Fields(strings.Join(words, " "))
	var size string
	switch {
	case len(fields) == 1:
		size = fields[0]
	case len(fields) > 0 && len(fields)%4 == 0:
		size = fields[1]
		for class := range len(fields) / 4 {
			f := fields[class*4 : class*4+4]
			switch strings.ToLower(f[0]) {
			case "normal", "slave", "replica", "pubsub":
			default:
				return "", errOneLimit
			}
			if f[1] != size || f[2] != "0" || f[3] != "0" {
				return "", errOneLimit
			}
		}
	default:
		return "", errOneLimit
	}
	n, err := parseSize(size)
	if err != nil {
		return "", err
	}
	if err := h.within(n); err != nil {
		return "", err
	}
	hard := " " + strconv.FormatInt(n, 10) + " 0 0"
	return "normal" + hard + " slave" + hard + " pubsub" + hard, nil
}

// size is the hard limit in text, which parse has made.
func (h *OutputLimit) size(text string) int64 {
	n, _ := strconv.ParseInt(strings.Fields(text)[1], 10, 64)
	return n
}

func (h *OutputLimit) store(text string) { h.v.Store(h.size(text)) }

func (h *OutputLimit) spell(text string) string { return formatSize(h.size(text)) }

func (h *OutputLimit) limits() string { return formatSize(h.min) + " to " + formatSize(h.max) }
