package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Handle is the typed handle of a directive: one of *Int, *Bytes, *Duration, *Share, *Budget, *OutputLimit,
// *Bool, *Text, *Enum, *Words and *Lines. There are no others.
type Handle interface {
	// Name returns the directive's name in lower case, such as "maxclients".
	Name() string

	// parse checks words and returns the canonical text. It stores nothing.
	parse(words []string) (string, error)
	// store sets the value to text, which parse has returned.
	store(text string)
	// spell returns text as a file should have it: with units where that is shorter, and quoted if necessary.
	spell(text string) string
	// limits describes the allowed values in words.
	limits() string

	setName(name string)
}

// named is the common part of all handles.
type named struct{ name string }

// Name returns the directive's name in lower case.
func (n *named) Name() string { return n.name }

func (n *named) setName(name string) { n.name = name }

// one returns the only word of words, or an error if there is not exactly one.
func one(words []string) (string, error) {
	if len(words) != 1 {
		return "", fmt.Errorf("one value is expected, not %d (quote a value that has spaces)", len(words))
	}
	return words[0], nil
}

var (
	errNotInteger = errors.New("argument couldn't be parsed into an integer")
	errNotOctal   = errors.New("argument couldn't be parsed as an octal number")
	errNotMemory  = errors.New("argument must be a memory value")
	errNotBool    = errors.New("argument must be 'yes' or 'no'")
	errNUL        = errors.New("argument must not contain a NUL byte")
)

// number is the common part of Int, Bytes, Duration, Share and Budget: an integer with a minimum and a maximum.
type number struct {
	named
	v        atomic.Int64
	min, max int64
	octal    bool
	check    func(int64) error // a check beyond the range, or nil
}

// base returns the base in which the number is written.
func (h *number) base() int {
	if h.octal {
		return 8
	}
	return 10
}

// format returns the canonical text of n.
func (h *number) format(n int64) string { return strconv.FormatInt(n, h.base()) }

// accept returns the canonical text of n, or an error if n is not allowed.
func (h *number) accept(n int64) (string, error) {
	if n < h.min || n > h.max {
		return "", fmt.Errorf("argument must be between %s and %s inclusive", h.format(h.min), h.format(h.max))
	}
	if h.check != nil {
		if err := h.check(n); err != nil {
			return "", err
		}
	}
	return h.format(n), nil
}

func (h *number) parse(words []string) (string, error) {
	w, err := one(words)
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseInt(w, h.base(), 64)
	if err == nil && w[0] != '+' {
		return h.accept(n)
	}
	if h.octal {
		return "", errNotOctal
	}
	return "", errNotInteger
}

func (h *number) store(text string) {
	n, _ := strconv.ParseInt(text, h.base(), 64)
	h.v.Store(n)
}

func (h *number) spell(text string) string { return text }

func (h *number) limits() string { return h.format(h.min) + " to " + h.format(h.max) }

// Int is a whole number, written in base 10 or, for file permissions, 8.
type Int struct{ number }

// Get returns the current value.
func (h *Int) Get() int64 { return h.v.Load() }

// Duration is a time, written as a whole number of the directive's unit (seconds or milliseconds).
type Duration struct {
	number
	unit time.Duration
}

// Get returns the current value.
func (h *Duration) Get() time.Duration { return time.Duration(h.v.Load()) * h.unit }

func (h *Duration) limits() string {
	unit := " seconds"
	if h.unit == time.Millisecond {
		unit = " milliseconds"
	}
	return h.number.limits() + unit
}

// Bytes is a size in bytes. As in Redis, 1k is 1000 and 1kb is 1024.
type Bytes struct{ number }

// Get returns the current value in bytes.
func (h *Bytes) Get() int64 { return h.v.Load() }

func (h *Bytes) parse(words []string) (string, error) {
	w, err := one(words)
	if err != nil {
		return "", err
	}
	n, err := parseSize(w)
	if err != nil {
		return "", err
	}
	return h.accept(n)
}

func (h *Bytes) spell(text string) string {
	n, _ := strconv.ParseInt(text, 10, 64)
	return formatSize(n)
}

func (h *Bytes) limits() string { return formatSize(h.min) + " to " + formatSize(h.max) }

// Bool is yes or no.
type Bool struct {
	named
	v     atomic.Bool
	check func(bool) error // or nil
}

// Get returns the current value.
func (h *Bool) Get() bool { return h.v.Load() }

func (h *Bool) parse(words []string) (string, error) {
	w, err := one(words)
	if err != nil {
		return "", err
	}
	text := strings.ToLower(w)
	if text != "yes" && text != "no" {
		return "", errNotBool
	}
	if h.check != nil {
		if err := h.check(text == "yes"); err != nil {
			return "", err
		}
	}
	return text, nil
}

func (h *Bool) store(text string) { h.v.Store(text == "yes") }

func (h *Bool) spell(text string) string { return text }

func (h *Bool) limits() string { return "yes or no" }

// text is the common part of Text and Enum.
type text struct {
	named
	v atomic.Pointer[string]
}

// Get returns the current value: of an Enum, in lower case.
func (h *text) Get() string { return *h.v.Load() }

func (h *text) store(text string) { h.v.Store(&text) }

// Text is any text: a path, a password.
type Text struct {
	text
	check func(string) error // or nil
	bytes bool               // NUL is allowed: the text is a password, not a path
}

func (h *Text) parse(words []string) (string, error) {
	w, err := one(words)
	if err != nil {
		return "", err
	}
	if !h.bytes && strings.IndexByte(w, 0) >= 0 {
		return "", errNUL
	}
	if h.check != nil {
		if err := h.check(w); err != nil {
			return "", err
		}
	}
	return w, nil
}

func (h *Text) spell(text string) string { return quoteWord(text) }

func (h *Text) limits() string { return "" }

// Enum is one of a few words, in upper or lower case.
type Enum struct {
	text
	values []string
}

func (h *Enum) parse(words []string) (string, error) {
	w, err := one(words)
	if err != nil {
		return "", err
	}
	for _, v := range h.values {
		if strings.EqualFold(v, w) {
			return v, nil
		}
	}
	return "", fmt.Errorf("argument(s) must be one of the following: %s", strings.Join(h.values, ", "))
}

func (h *Enum) spell(text string) string { return text }

func (h *Enum) limits() string { return strings.Join(h.values, ", ") }

// Words is a list of words, which can be given one by one or in one text with spaces between them.
type Words struct {
	named
	v     atomic.Pointer[[]string]
	check func([]string) error // or nil
	adds  bool                 // the lines of one source add up; an empty line starts over
}

// Get returns the current value, which the caller must not change.
func (h *Words) Get() []string { return *h.v.Load() }

func (h *Words) parse(words []string) (string, error) {
	fields := strings.Fields(strings.Join(words, " "))
	for _, w := range fields {
		if strings.IndexByte(w, 0) >= 0 {
			return "", errNUL
		}
	}
	if h.check != nil {
		if err := h.check(fields); err != nil {
			return "", err
		}
	}
	return strings.Join(fields, " "), nil
}

func (h *Words) store(text string) {
	fields := strings.Fields(text)
	h.v.Store(&fields)
}

func (h *Words) spell(text string) string {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return `""`
	}
	for i, w := range fields {
		fields[i] = quoteWord(w)
	}
	return strings.Join(fields, " ")
}

func (h *Words) limits() string { return "" }
