package server

import (
	"errors"
	"time"

	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// Snapshots and backups.
func saveRows() []row {
	cmd, quick := handler.Rows[call]("server", "O(N) where N is the number of keys", 0), handler.Rows[call]("server", "O(1)", 0)
	return []row{
		cmd("SAVE", 1, spec.Client|spec.Admin, "Writes a snapshot and returns when it is durable. Other connections are served meanwhile.", (*call).save),
		cmd("BGSAVE", -1, spec.Admin, "Writes a snapshot in the background.", (*call).bgSave, spec.Optional(spec.Word("SCHEDULE"))),
		cmd("BGREWRITEAOF", 1, spec.Admin, "Writes a snapshot in the background, and drops the log before it.", func(c *call) {
			c.background("Background append only file rewriting started")
		}),
		quick("LASTSAVE", 1, spec.Fast|spec.Loading|spec.Stale, "Returns the time of the last snapshot in Unix seconds, or of the server's start if there is none.", (*call).lastSave),
		quick("BACKUP", 2, spec.Client|spec.Admin, "Copies the data to a new folder below dir, by hard links; returns its path.", (*call).backup, spec.Text("folder")),
	}
}

// keeps reports whether the server keeps its state on disk. If not, it replies with an error.
func (c *call) keeps() bool {
	if c.srv.durable.stats().Kept {
		return true
	}
	c.Fail(errNoPersistence)
	return false
}

func (c *call) save() {
	if c.keeps() {
		c.client.Background(c.srv.durable.Snapshot, c.okOrFail)
	}
}

func (c *call) bgSave() {
	if len(c.Args) > 2 || len(c.Args) == 2 && !resp.EqualFold(c.Args[1], "SCHEDULE") {
		c.Fail(spec.ErrSyntax)
		return
	}
	c.background("Background saving started")
}

// background begins a snapshot that no client waits for.
func (c *call) background(reply string) {
	if !c.keeps() {
		return
	}
	srv := c.srv
	if srv.durable.Stats().Snapshotting || !srv.durable.running.CompareAndSwap(false, true) {
		c.Fail(errSnapshotting)
		return
	}
	go func() {
		defer srv.durable.running.Store(false)
		srv.Snapshot()
	}()
	c.Simple(reply)
}

// Snapshot writes a snapshot and blocks until it is durable. It logs a failure. It does nothing
// while the state is being loaded or another snapshot is being written.
func (srv *Server) Snapshot() {
	if srv.durable.stats().Loading {
		return
	}
	if err := srv.durable.Snapshot(); err != nil && !errors.Is(err, ErrSnapshotting) {
		srv.log.Error("a snapshot failed", "err", err)
	}
}

func (c *call) lastSave() {
	at := c.srv.started
	if st := c.srv.durable.stats(); st.LastSnapshot > 0 {
		at = st.LastSnapshot
	}
	c.Int(at / int64(time.Second))
}

func (c *call) backup() {
	if !c.keeps() {
		return
	}
	name := string(c.Args[1])
	var path string
	c.client.Background(func() (err error) {
		path, err = c.srv.durable.Backup(name)
		return err
	}, func(err error) {
		if err != nil {
			c.okOrFail(err)
			return
		}
		c.Text(path)
	})
}
