package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Error is one mistake in a file.
type Error struct {
	// Line and Column are where it is, from 1.
	Line, Column int
	// Text says what is wrong, in one line.
	Text string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// Errors are the mistakes in a file, in its order; at least one. After maxErrors, one more says that there are others.
type Errors []*Error

// maxErrors is how many mistakes Parse looks for.
const maxErrors = 1000

// Error returns the first mistake, and how many there are besides.
func (es Errors) Error() string {
	text := es[0].Error()
	if n := len(es) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// Unwrap returns the mistakes.
func (es Errors) Unwrap() []error {
	all := make([]error, len(es))
	for i, e := range es {
		all[i] = e
	}
	return all
}

func (es Errors) sort() {
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// maxQuoted is how many bytes of a text an error repeats.
const maxQuoted = 64

// quote makes a text one printable line, cut at maxQuoted bytes.
func quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(text[:maxQuoted]) + "..."
	}
	return strconv.Quote(text)
}

// list joins names with commas and a last "or".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
