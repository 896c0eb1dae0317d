package main

import "errors"

// cleanups are what undoes the steps of a start, however it ends: each step that has worked adds
// what takes it back.
type cleanups []func() error

func (c *cleanups) add(fn func() error) { *c = append(*c, fn) }

// run runs all of them, the last one first, and returns their errors.
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
