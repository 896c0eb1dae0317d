package server

import (
	"slices"
	"strings"

	"limitdb/config"
)

// redactedText stands where a secret stood.
const redactedText = "(redacted)"

// redact returns args fit for MONITOR and the slow log: passwords replaced.
// args itself is left as it is, and returned where it holds none.
func (srv *Server) redact(cmd *command, args [][]byte) [][]byte {
	hide := func(from, n int) {
		for i := from; i < min(from+n, len(args)); i++ {
			args[i] = []byte(redactedText)
		}
	}
	switch cmd.fullName() {
	case "auth":
		args = slices.Clone(args)
		hide(1, len(args))
	case "hello":
		args = slices.Clone(args)
		for i := 2; i < len(args); i++ {
			if foldEqual(args[i], "AUTH") {
				hide(i+1, 2)
				i += 2
			}
		}
	case "config|set":
		// Wherever the name stands: a value may have been forgotten before it.
		args = slices.Clone(args)
		for i := 2; i < len(args); i++ {
			if srv.isSecret(string(args[i])) {
				hide(i+1, 1)
				i++
			}
		}
	}
	return args
}

// isSecret tells whether a directive of that name holds a secret.
func (srv *Server) isSecret(name string) bool {
	return slices.ContainsFunc(srv.registry.Reference(), func(e config.Entry) bool {
		return e.Secret && strings.EqualFold(e.Name, name)
	})
}
