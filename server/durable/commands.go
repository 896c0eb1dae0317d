package durable

import (
	"cmp"
	"errors"
	"time"

	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

// ErrNone is the reply where nothing is kept.
const ErrNone = "ERR this server keeps its state in memory only: there is nothing to save (CONFIG SET appendonly yes turns the log on)"

// ErrBusy is the reply while a snapshot is being written.
const ErrBusy = "ERR Background save already in progress"

// Rows returns the commands that write snapshots and backups. The server runs since started, in ns of Unix time, and snapshot writes a
// snapshot that nobody waits for.
func (k *Keeper) Rows(started int64, snapshot func()) []row {
	cmd, quick := handler.Rows[call]("server", "O(N) where N is the number of keys", 0), handler.Rows[call]("server", "O(1)", 0)
	return []row{
		cmd("SAVE", 1, spec.Client|spec.Admin, "Writes a snapshot and returns when it is durable. Other connections are served meanwhile.", k.save),
		cmd("BGSAVE", -1, spec.Admin, "Writes a snapshot in the background.", func(c *call) {
			if len(c.Args) > 2 || len(c.Args) == 2 && !resp.EqualFold(c.Args[1], "SCHEDULE") {
				c.Fail(spec.ErrSyntax)
				return
			}
			k.background(c, snapshot, "Background saving started")
		}, spec.Optional(spec.Word("SCHEDULE"))),
		cmd("BGREWRITEAOF", 1, spec.Admin, "Writes a snapshot in the background, and drops the log before it.", func(c *call) {
			k.background(c, snapshot, "Background append only file rewriting started")
		}),
		quick("LASTSAVE", 1, spec.Fast|spec.Loading|spec.Stale, "Returns the time of the last snapshot in Unix seconds, or of the server's start if there is none.", func(c *call) {
			c.Int(cmp.Or(k.Figures().LastSnapshot, started) / int64(time.Second))
		}),
		quick("BACKUP", 2, spec.Client|spec.Admin, "Copies the data to a new folder below dir, by hard links; returns its path.", k.backup, spec.Text("folder")),
	}
}

// Keeps reports whether the server keeps its state on disk. If not, it replies with an error.
func (k *Keeper) Keeps(c *call) bool {
	if k.Figures().Kept {
		return true
	}
	c.Fail(ErrNone)
	return false
}

func (k *Keeper) save(c *call) {
	if k.Keeps(c) {
		c.Client.Background(k.Snapshot, func(err error) { Reply(c, err) })
	}
}

// background begins a snapshot that no client waits for.
func (k *Keeper) background(c *call, snapshot func(), reply string) {
	if !k.Keeps(c) {
		return
	}
	if k.Stats().Snapshotting || !k.Snapshotting.CompareAndSwap(false, true) {
		c.Fail(ErrBusy)
		return
	}
	go func() {
		defer k.Snapshotting.Store(false)
		snapshot()
	}()
	c.Simple(reply)
}

func (k *Keeper) backup(c *call) {
	if !k.Keeps(c) {
		return
	}
	name := string(c.Args[1])
	var path string
	c.Client.Background(func() (err error) {
		path, err = k.Backup(name)
		return err
	}, func(err error) {
		if err != nil {
			Reply(c, err)
			return
		}
		c.Text(path)
	})
}

// Reply replies with OK if err is nil, and otherwise with the error.
func Reply(c *call, err error) {
	switch {
	case err == nil:
		c.OK()
	case errors.Is(err, ErrSnapshotting):
		c.Fail(ErrBusy)
	default:
		c.Fail("ERR " + spec.Plain(err))
	}
}
