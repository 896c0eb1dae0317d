package load

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"limitdb/resp"
)

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
