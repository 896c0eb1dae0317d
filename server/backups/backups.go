// Package backups has RL.BACKUP, by which limitdb backup reads a backup over a client's connection.
package backups

import (
	"hash/crc32"

	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// PieceBytes is the most bytes that one RL.BACKUP READ returns.
const PieceBytes = 256 << 10

// File is a file of a backup, which does not change while the backup is open.
type File struct {
	Name  string // a path with slashes, below the backup's directory
	Bytes int64
}

// Source is the server's interface to the code that makes backups. Any goroutine may call its functions, which may block. The server
// keeps one backup open at a time, until End, or until nobody has read it for some time.
type Source struct {
	// Begin opens a backup and returns its name and files. It waits for a snapshot that is being written.
	Begin func() (name string, files []File, err error)
	// Read returns bytes of a file from an offset on, PieceBytes at most, and none at its end.
	Read func(name, file string, offset int64) ([]byte, error)
	// End closes a backup. whole reports whether the client has stored and verified all of it.
	End func(name string, whole bool) error
}

type (
	call = handler.Call
	row  = handler.Row[call]
)

// ErrNone is the reply where there is nothing to back up.
const ErrNone = "ERR this server keeps no state on disk, so it has nothing to back up: set appendonly or save"

// Rows returns RL.BACKUP. A Source that is nil answers with errors.
func (s *Source) Rows() []row {
	sub := handler.Rows[call]("server", "O(n) for n bytes", spec.Admin|spec.Client|spec.AllKeys)
	backup := spec.Text("backup")
	return []row{handler.Container("RL.BACKUP", "server", "A container for the commands by which limitdb backup reads a backup.",
		sub("BEGIN", 2, 0, "Opens a backup of all state as it is now. Returns its name, and the name and length of each file.", s.begin),
		sub("READ", 5, 0, "Returns bytes of a file of an open backup, at most 256 kB, and their CRC32C.", s.read,
			backup, spec.Text("file"), spec.Integer("offset")),
		sub("END", 4, 0, "Closes a backup. WHOLE says that all of it was stored and verified; the metrics count it as a backup that was made, or that failed.", s.end,
			backup, spec.Words("outcome", "WHOLE", "FAILED")),
	)}
}

// run runs work apart, and then replies with its error or as told.
func (s *Source) run(c *call, work func() error, reply func()) {
	if s == nil {
		c.Fail(ErrNone)
		return
	}
	c.Client.Background(work, func(err error) {
		if err != nil {
			c.Fail("ERR " + spec.Plain(err))
			return
		}
		reply()
	})
}

func (s *Source) begin(c *call) {
	var name string
	var files []File
	s.run(c, func() (err error) {
		name, files, err = s.Begin()
		return err
	}, func() {
		c.Array(2)
		c.Text(name)
		c.Array(len(files))
		for _, f := range files {
			c.Array(2)
			c.Text(f.Name)
			c.Int(f.Bytes)
		}
	})
}

func (s *Source) read(c *call) {
	name, file := string(c.Args[2]), string(c.Args[3])
	offset, ok := resp.ParseInt(c.Args[4])
	if !ok || offset < 0 {
		c.Fail(spec.ErrNotInt)
		return
	}
	var b []byte
	s.run(c, func() (err error) {
		b, err = s.Read(name, file, offset)
		return err
	}, func() {
		c.Array(2)
		c.Bulk(b)
		c.Int(int64(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))) // which is made once
	})
}

func (s *Source) end(c *call) {
	name, whole := string(c.Args[2]), resp.EqualFold(c.Args[3], "WHOLE")
	if !whole && !resp.EqualFold(c.Args[3], "FAILED") {
		c.Fail(spec.ErrSyntax)
		return
	}
	s.run(c, func() error { return s.End(name, whole) }, c.OK)
}
