package server

import (
	"slices"

	"limitdb/resp"
)

// redactedText replaces a secret.
const redactedText = "(redacted)"

// redact returns args with passwords replaced, for MONITOR and the slow log. It does not change
// args, and returns args itself if it holds no password.
func (srv *Server) redact(cmd *command, args [][]byte) [][]byte {
	hide := func(from, n int) {
		for i := from; i < min(from+n, len(args)); i++ {
			args[i] = []byte(redactedText)
		}
	}
	switch cmd.Full {
	case "auth":
		args = slices.Clone(args)
		hide(1, len(args))
	case "hello":
		args = slices.Clone(args)
		for i := 2; i < len(args); i++ {
			if resp.EqualFold(args[i], "AUTH") {
				hide(i+1, 2)
				i += 2
			}
		}
	case "config|set":
		// Look for the name at any position: the client may have left out a value before it.
		args = slices.Clone(args)
		for i := 2; i < len(args); i++ {
			if srv.registry.Secret(string(args[i])) {
				hide(i+1, 1)
				i++
			}
		}
	}
	return args
}
