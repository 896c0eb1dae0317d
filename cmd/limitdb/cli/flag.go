package cli

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// AddressFlag declares the flag that CutAddress cuts out, for the help of a command that parses its own.
func AddressFlag(c *cobra.Command) {
	c.Flags().StringP("addr", "a", "", "the server's `host:port`, or the path of its unix socket")
}

// CutFlag removes a flag that is not a directive from args, and reports whether it was there.
func CutFlag(args []string, flag string) (rest []string, found bool) {
	rest = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == flag })
	return rest, len(rest) < len(args)
}

// CutAddress replaces -a or --addr and its value, a host:port or the path of a unix socket as limitdb bench takes them, by
// the directives that say the same.
func CutAddress(args []string) ([]string, error) {
	at := slices.IndexFunc(args, func(a string) bool { return a == "-a" || a == "--addr" })
	if at < 0 {
		return args, nil
	}
	addr := ""
	if at+1 < len(args) {
		addr = args[at+1]
	}
	rest := slices.Delete(slices.Clone(args), at, min(at+2, len(args)))
	if strings.Contains(addr, "/") {
		return append(rest, "--port", "0", "--unixsocket", addr), nil
	}
	host, port, err := net.SplitHostPort(addr)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return nil, fmt.Errorf("%s takes the server's host:port, or the path of its unix socket; a password goes into LIMITDB_REQUIREPASS or --requirepass", args[at])
	}
	if host == "" {
		return append(rest, "--port", port), nil
	}
	return append(rest, "--bind", host, "--port", port), nil
}
