package server

import (
	"sync/atomic"

	"limitdb/resp"
)

// The texts that a client sets about itself: its name, and its library's name and version.

// nameMost bounds each of these texts, in bytes.
const nameMost = 1024

// nameError returns the error if b cannot be one of these texts, or "". As in Redis, b must be
// printable ASCII without blanks; wrong is the error if it is not.
func nameError(b []byte, wrong string) string {
	if len(b) > nameMost {
		return errNameLong
	}
	for _, c := range b {
		if c < '!' || c > '~' {
			return wrong
		}
	}
	return ""
}

// storeText stores b, which nameError has accepted. An empty b removes the text.
func (s *session) storeText(to *atomic.Pointer[string], b []byte) {
	s.pub.textMemory.Add(int64(len(b) - len(loadText(to))))
	if len(b) == 0 {
		to.Store(nil)
		return
	}
	text := string(b)
	to.Store(&text)
}

func loadText(from *atomic.Pointer[string]) string {
	if p := from.Load(); p != nil {
		return *p
	}
	return ""
}

func (c *call) clientSetName() {
	c.client.closeStream() // the next one says the name
	c.setText(&c.client.pub.name, c.Args[2], errClientName)
}

func (c *call) clientGetName() {
	if name := loadText(&c.client.pub.name); name != "" {
		c.Text(name)
		return
	}
	c.Null()
}

func (c *call) clientSetInfo() {
	switch {
	case resp.EqualFold(c.Args[2], "LIB-NAME"):
		c.setText(&c.client.pub.libName, c.Args[3], errLibName)
	case resp.EqualFold(c.Args[2], "LIB-VER"):
		c.setText(&c.client.pub.libVer, c.Args[3], errLibVer)
	default:
		c.Fail("ERR Unrecognized option '" + resp.Excerpt(c.Args[2]) + "'")
	}
}

// setText stores b and replies OK, or the error.
func (c *call) setText(to *atomic.Pointer[string], b []byte, wrong string) {
	if text := nameError(b, wrong); text != "" {
		c.Fail(text)
		return
	}
	c.client.storeText(to, b)
	c.OK()
}
