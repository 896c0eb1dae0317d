package request

import (
	"fmt"
	"strings"
	"testing"

	"limitdb/engine"
)

// Clients do not read the names of packages.
func TestErrorText(t *testing.T) {
	for _, err := range []error{engine.ErrTooMany, engine.ErrOOM, engine.ErrClosed, engine.ErrWrongType, engine.ErrDuplicate, engine.ErrUndeclared} {
		for _, err := range []error{err, fmt.Errorf("%w", err)} {
			if got := ErrorText(err); strings.Contains(got, "engine") || strings.ToUpper(got[:3]) != got[:3] {
				t.Errorf("%v: %q", err, got)
			}
		}
	}
}
