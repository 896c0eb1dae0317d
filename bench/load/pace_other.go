//go:build !linux

package load

import "context"

func newNap(ctx context.Context) (nap, error) { return newGoNap(ctx) }
