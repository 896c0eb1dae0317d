package transport

import (
	"syscall"
	"unsafe"
)

// unacknowledged returns the number of bytes in a socket's send buffer: unsent, or sent and not acknowledged.
// For a unix socket it returns the memory of what the peer has not read.
func unacknowledged(fd int) int64 {
	var n int32
	_, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		return 0
	}
	return int64(n)
}
