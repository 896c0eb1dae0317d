package server

import (
	"limitdb/resp"
	"limitdb/server/request"
)

// remembered is the last command that may be queued. Most clients repeat one command for different
// keys. The session recognizes it by its bytes, and does not split or parse it again. A plan
// depends on nothing but these bytes, so no setting makes it out of date. Whether the client may
// run the command is checked before.
type remembered struct {
	shape   resp.Shape
	cmd     *command
	planned bool // plan is what it asks for
	plan    request.Plan

	missed uint8 // commands in a row that were others
}

// worth reports whether to remember another command instead. Remembering costs a little, so a
// command that only comes in between is not remembered, and of a client that repeats no command
// only a few are.
func (m *remembered) worth() bool { return m.missed == 2 || m.missed == 3 || m.missed%32 == 0 }

// promising reports whether the next command may be the one remembered.
func (m *remembered) promising() bool { return m.missed < 8 || m.missed%32 == 0 }
