package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ClientClass is a class of clients with its own output limit.
type ClientClass int

// The classes, in the order of CONFIG GET.
const (
	NormalClient ClientClass = iota
	ReplicaClient
	PubSubClient
)

// BufferLimit limits the replies that wait to be sent to one client.
type BufferLimit struct {
	// Hard is the number of bytes that closes the client immediately; 0 means no limit.
	Hard int64
	// Soft is the number of bytes that closes the client when they have been there for SoftTime; 0 means no
	// limit.
	Soft     int64
	SoftTime time.Duration
}

// Most returns Hard, or the largest number if there is no limit.
func (l BufferLimit) Most() int64 {
	if l.Hard == 0 {
		return math.MaxInt64
	}
	return l.Hard
}

// outputLimits has the limit of each class.
type outputLimits [3]BufferLimit

// OutputLimit is a limit for each class of clients. It is written as in Redis, "class hard soft seconds" for
// one or more classes. Classes that are not named keep their limit. A single size is the hard limit of all
// classes.
type OutputLimit struct {
	named
	v        atomic.Pointer[outputLimits]
	min, max int64 // of a hard limit other than 0
}

// Get returns the current limit of a class.
func (h *OutputLimit) Get(c ClientClass) BufferLimit { return h.v.Load()[c] }

func (h *OutputLimit) parse(words []string) (string, error) { return h.parseOnto("", words) }

// parseOnto is like parse, but classes that words do not name keep their limits from before, a canonical text
// or "".
func (h *OutputLimit) parseOnto(before string, words []string) (string, error) {
	all := readOutputLimits(before)
	fields := strings.Fields(strings.Join(words, " "))
	switch {
	case len(fields) == 1:
		hard, err := h.hard(fields[0])
		if err != nil {
			return "", err
		}
		all = outputLimits{{Hard: hard}, {Hard: hard}, {Hard: hard}}
	case len(fields) > 0 && len(fields)%4 == 0:
		for ; len(fields) > 0; fields = fields[4:] {
			class, err := clientClass(fields[0])
			if err != nil {
				return "", err
			}
			if all[class], err = h.limit(fields[1:4]); err != nil {
				return "", err
			}
		}
	default:
		//lint:ignore ST1005 Redis' own text, which clients see
		return "", fmt.Errorf("Wrong number of arguments in buffer limit configuration: give one size, or a class, a hard limit, a soft limit and seconds")
	}
	return all.text(), nil
}

func clientClass(word string) (ClientClass, error) {
	switch strings.ToLower(word) {
	case "normal":
		return NormalClient, nil
	case "slave", "replica":
		return ReplicaClient, nil
	case "pubsub":
		return PubSubClient, nil
	}
	//lint:ignore ST1005 Redis' own text, which clients see
	return 0, fmt.Errorf("Invalid client class specified in buffer limit configuration: %s (normal, replica and pubsub are known)", quote(word))
}

// limit parses the hard limit, the soft limit and its seconds.
func (h *OutputLimit) limit(words []string) (l BufferLimit, err error) {
	if l.Hard, err = h.hard(words[0]); err != nil {
		return l, err
	}
	if l.Soft, err = parseSize(words[1]); err != nil {
		return l, err
	}
	seconds, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || seconds < 0 || seconds > maxSeconds || l.Soft > h.max {
		//lint:ignore ST1005 Redis' own text, which clients see
		return l, fmt.Errorf("Error in hard, soft or soft_seconds setting in buffer limit configuration")
	}
	l.SoftTime = time.Duration(seconds) * time.Second
	return l, nil
}

// hard parses a hard limit.
func (h *OutputLimit) hard(word string) (int64, error) {
	n, err := parseSize(word)
	if err == nil && n != 0 && (n < h.min || n > h.max) {
		err = fmt.Errorf("argument must be 0 or between %d and %d inclusive", h.min, h.max)
	}
	return n, err
}

// text returns the canonical text, which is that of Redis' CONFIG GET.
func (l *outputLimits) text() string {
	return l.spell(func(n int64) string { return strconv.FormatInt(n, 10) }, "slave")
}

func (l *outputLimits) spell(size func(int64) string, replica string) string {
	parts := make([]string, 0, len(l))
	for i, class := range [...]string{"normal", replica, "pubsub"} {
		parts = append(parts, class, size(l[i].Hard), size(l[i].Soft), strconv.FormatInt(int64(l[i].SoftTime/time.Second), 10))
	}
	return strings.Join(parts, " ")
}

// readOutputLimits parses a canonical text.
func readOutputLimits(text string) (l outputLimits) {
	fields := strings.Fields(text)
	for i := range len(fields) / 4 {
		n := func(at int) int64 {
			v, _ := strconv.ParseInt(fields[4*i+at], 10, 64)
			return v
		}
		l[i] = BufferLimit{Hard: n(1), Soft: n(2), SoftTime: time.Duration(n(3)) * time.Second}
	}
	return l
}

func (h *OutputLimit) store(text string) {
	l := readOutputLimits(text)
	h.v.Store(&l)
}

func (h *OutputLimit) spell(text string) string {
	l := readOutputLimits(text)
	if only := (BufferLimit{Hard: l[0].Hard}); l == (outputLimits{only, only, only}) {
		return formatSize(only.Hard)
	}
	return l.spell(formatSize, "replica")
}

func (h *OutputLimit) limits() string {
	return "one size, or class hard soft seconds; hard is 0 or " + formatSize(h.min) + " to " + formatSize(h.max)
}
