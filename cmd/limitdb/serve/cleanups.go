package serve

import "errors"

// cleanups undo the steps of a start, however it ends: each step that succeeds adds a function that
// undoes it.
type cleanups []func() error

func (c *cleanups) add(fn func() error) { *c = append(*c, fn) }

// run calls all functions, the last one first, and returns their errors.
func (c *cleanups) run() error {
	var errs []error
	for len(*c) > 0 {
		last := len(*c) - 1
		fn := (*c)[last]
		*c = (*c)[:last]
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}
