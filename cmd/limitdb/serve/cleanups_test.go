package serve

import (
	"errors"
	"slices"
	"testing"
)

// The last step is undone first, and each step is undone once.
func TestCleanups(t *testing.T) {
	var c cleanups
	var ran []int
	first, third := errors.New("first"), errors.New("third")
	for i, err := range []error{first, nil, third} {
		c.add(func() error { ran = append(ran, i); return err })
	}
	if err := c.run(); !errors.Is(err, first) || !errors.Is(err, third) || err.Error() != "third\nfirst" {
		t.Errorf("the error is %v", err)
	}
	if err := c.run(); err != nil || !slices.Equal(ran, []int{2, 1, 0}) {
		t.Errorf("they ran as %v, then %v", ran, err)
	}
}
