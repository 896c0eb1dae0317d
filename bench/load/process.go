package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"limitdb/resp"
)

// userHZ is the unit of times in /proc, which Linux fixes for all programs.
const userHZ = 100

// processCPU returns the user and system time of all threads of a process, including ended ones, in steps of
// 10 ms. Linux only.
func processCPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(b)
}

func parseStat(b []byte) (time.Duration, error) {
	// Field 2 is the name in parentheses, which may contain blanks and parentheses.
	i := bytes.LastIndexByte(b, ')')
	fields := strings.Fields(string(b[i+1:]))
	if i < 0 || len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat: too few fields")
	}
	var ticks uint64
	for _, f := range fields[11:13] { // fields 14 and 15, utime and stime
		n, err := strconv.ParseUint(f, 10, 63)
		if err != nil {
			return 0, fmt.Errorf("/proc/PID/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / userHZ), nil
}

// ownCPU returns the user and system time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maxAnswer bounds the size of replies to ask, in bytes: the reply to INFO is the longest.
const maxAnswer = 1 << 20

// ask sends one command and returns the text of its reply.
func ask(conn net.Conn, timeout time.Duration, words ...string) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	if _, err := conn.Write(resp.AppendCommand(nil, words...)); err != nil {
		return "", err
	}
	v, err := resp.ReadReply(bufio.NewReader(conn), maxAnswer)
	if err != nil {
		return "", err
	}
	return v.Text, v.Err()
}

// authenticate sends AUTH, unless password is empty.
func authenticate(conn net.Conn, password string, timeout time.Duration) error {
	if password == "" {
		return nil
	}
	_, err := ask(conn, timeout, "AUTH", password)
	return err
}

// askPID asks the server for its process id.
func askPID(conn net.Conn, timeout time.Duration) (int, error) {
	info, err := ask(conn, timeout, "INFO", "server")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "process_id:"); ok {
			return strconv.Atoi(v)
		}
	}
	return 0, errors.New("INFO has no process_id")
}
