package cli

import "slices"

// CutFlag removes a flag that is not a directive from args, and reports whether it was there.
func CutFlag(args []string, flag string) (rest []string, found bool) {
	rest = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == flag })
	return rest, len(rest) < len(args)
}
