package clock

import (
	"bytes"
	"hash/crc32"
	"os"

	"golang.org/x/sys/unix"
)

// SystemBoot returns a function that names the machine's start, and tells the time since then, in ns. Its id is 0 if the system has none.
func SystemBoot() func() (id uint64, elapsed int64) {
	name, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return func() (uint64, int64) { return 0, 0 }
	}
	name = bytes.TrimSpace(name)
	half := len(name) / 2
	id := uint64(crc32.ChecksumIEEE(name[:half]))<<32 | uint64(crc32.ChecksumIEEE(name[half:]))
	return func() (uint64, int64) {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			return 0, 0
		}
		return id, ts.Nano()
	}
}
