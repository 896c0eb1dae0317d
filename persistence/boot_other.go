//go:build !linux

package persistence

// SystemBoot returns a function that knows nothing about the machine's start. See Options.Boot.
func SystemBoot() func() (id uint64, elapsed int64) {
	return func() (uint64, int64) { return 0, 0 }
}
