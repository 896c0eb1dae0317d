package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// rawConn is a connection that writes bytes unchanged and reads replies in the simplest way, without a client
// library.
type rawConn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// dial connects to addr. The connection is closed at the end of the test.
func dial(t *testing.T, addr string) *rawConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, deadline)
	if err != nil {
		t.Fatal(err)
	}
	return raw(t, c)
}

// dialTLS does what dial does, for a TLS port.
func dialTLS(t *testing.T, addr string, conf *tls.Config) *rawConn {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: deadline}, "tcp", addr, conf)
	if err != nil {
		t.Fatal(err)
	}
	return raw(t, c)
}

func raw(t *testing.T, c net.Conn) *rawConn {
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * deadline))
	return &rawConn{t: t, Conn: c, r: bufio.NewReaderSize(c, 1<<16)}
}

// send writes s unchanged.
func (c *rawConn) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// do sends one command and returns its reply in the form of readReply.
func (c *rawConn) do(args ...string) string {
	c.t.Helper()
	c.send(command(args...))
	return c.reply()
}

// reply reads one reply, and fails the test if there is none.
func (c *rawConn) reply() string {
	c.t.Helper()
	s, err := readReply(c.r)
	if err != nil {
		c.t.Fatalf("read a reply: %v", err)
	}
	return s
}

// rest reads until the server closes the connection. A reset counts as a close.
func (c *rawConn) rest() string {
	c.t.Helper()
	b, err := io.ReadAll(c.r)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatalf("the connection stays open; it sent %q", b)
	}
	return string(b)
}

// command returns args as a RESP command.
func command(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// readReply reads one reply and prints it on one line: simple strings, errors and numbers with the byte of
// their type, bulk strings unchanged, aggregates as "[a b c]", a map as "{a b}", null as "(nil)".
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("an empty line where a reply should be")
	}
	switch line[0] {
	case '+', '-', ':', ',', '#', '(':
		return line, nil
	case '_':
		return "(nil)", nil
	case '$', '=':
		n, err := strconv.Atoi(line[1:])
		if err != nil {
			return "", err
		}
		if n < 0 {
			return "(nil)", nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		return string(b[:n]), nil
	case '*', '~', '>', '%':
		return readAggregate(r, line)
	}
	return "", fmt.Errorf("no reply begins like %q", line)
}

func readAggregate(r *bufio.Reader, line string) (string, error) {
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		return "", err
	}
	if n < 0 {
		return "(nil)", nil
	}
	open, end := "[", "]"
	if line[0] == '%' {
		n, open, end = 2*n, "{", "}"
	}
	parts := make([]string, n)
	for i := range parts {
		if parts[i], err = readReply(r); err != nil {
			return "", err
		}
	}
	return open + strings.Join(parts, " ") + end, nil
}
