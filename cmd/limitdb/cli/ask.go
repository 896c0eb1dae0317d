package cli

import (
	"bufio"
	"net"

	"limitdb/resp"
)

// Ask sends one command and returns its reply, which may be an error of the server's. The error that Ask itself returns is
// one of the connection, or for a reply above most bytes.
func Ask(conn net.Conn, r *bufio.Reader, most int, words ...string) (resp.Value, error) {
	if _, err := conn.Write(resp.AppendCommand(nil, words...)); err != nil {
		return resp.Value{}, err
	}
	return resp.ReadReply(r, most)
}
