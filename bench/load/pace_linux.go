package load

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// kernelNap sleeps with a timer of the kernel (timerfd), which Go's poller waits for like a file. It is exact
// to a few microseconds.
type kernelNap struct {
	file *os.File
	raw  syscall.RawConn
	stop func() bool
}

func newNap(ctx context.Context) (nap, error) {
	const clockMonotonic = 1
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	n := &kernelNap{file: os.NewFile(fd, "timer")}
	var err error
	if n.raw, err = n.file.SyscallConn(); err != nil {
		_ = n.file.Close()
		return nil, err
	}
	n.stop = context.AfterFunc(ctx, func() { _ = n.file.SetReadDeadline(time.Unix(1, 0)) })
	return n, nil
}

func (n *kernelNap) until(t time.Time) error {
	var failed error
	// Each time the function returns false, Read waits for the timer to fire. The timer is never read: each
	// time that it is set and fires is an event of its own.
	err := n.raw.Read(func(fd uintptr) bool {
		left := time.Until(t)
		if left <= 0 {
			return true
		}
		spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(left))} // no interval: fires once
		_, _, errno := syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
		if errno != 0 {
			failed = os.NewSyscallError("timerfd_settime", errno)
		}
		return failed != nil
	})
	if failed != nil {
		return failed
	}
	return err
}

func (n *kernelNap) close() {
	n.stop()
	_ = n.file.Close()
}
