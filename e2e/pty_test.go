package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a program that runs in a pseudo-terminal.
type terminal struct {
	t      *testing.T
	master *os.File
	screen *logBuffer
}

// openTerminal starts a program in a pseudo-terminal of 200 columns. The program is killed at the end of the
// test.
func openTerminal(t *testing.T, name string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()

	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append(cleanEnviron(), "TERM=xterm", "HOME="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, screen: &logBuffer{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			if err != nil {
				return // EIO, because the program has ended
			}
			term.screen.Write(b[:n])
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		<-read
		master.Close()
	})
	return term
}

// press sends keys, and returns what the terminal has shown since, once that contains want.
func (term *terminal) press(keys, want string) string {
	term.t.Helper()
	before := len(term.screen.String())
	if _, err := term.master.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
	var shown string
	eventually(term.t, fmt.Sprintf("%q after %q", want, keys), func() bool {
		shown = term.screen.String()[before:]
		return strings.Contains(shown, want)
	})
	return shown
}
