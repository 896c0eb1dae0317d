package config

import (
	"errors"
	"strings"
	"sync/atomic"
)

// Lines is a list of lines of words. Each line of a source adds one, and an empty line starts over.
type Lines struct {
	named
	v atomic.Pointer[[][]string]
}

// Get returns the words of each line, which the caller must not change.
func (h *Lines) Get() [][]string { return *h.v.Load() }

var errInLines = errors.New("a word must not contain a space, a line break or a NUL byte")

// parse returns the words with spaces between them: a line. The lines of a value have line breaks between them.
func (h *Lines) parse(words []string) (string, error) {
	if len(words) == 1 {
		words = strings.FieldsFunc(words[0], isLineSpace) // the line in quotes, as on the command line
	}
	for _, w := range words {
		if strings.ContainsAny(w, " \t\r\n\x00") {
			return "", errInLines
		}
	}
	return strings.Join(words, " "), nil
}

// parseOnto is parse for one line more. again reports whether the same source has given the lines before.
func (h *Lines) parseOnto(before string, again bool, words []string) (string, error) {
	line, err := h.parse(words)
	if again && before != "" && line != "" {
		line = before + "\n" + line
	}
	return line, err
}

// isLineSpace leaves alone the spaces of Unicode, which a word may have.
func isLineSpace(r rune) bool { return r < 0x80 && isSpace(byte(r)) }

func (h *Lines) store(text string) {
	lines := [][]string{}
	for line := range strings.Lines(text) {
		lines = append(lines, strings.FieldsFunc(line, isLineSpace))
	}
	h.v.Store(&lines)
}

func (h *Lines) spell(text string) string { return quoteWord(text) }

func (h *Lines) limits() string { return "" }
