package server

import (
	"errors"
	"time"
)

// Snapshots and backups.
func saveCommands() []command {
	row := func(name string, arity int, f flags, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f, group: "server", since: "1.0.0", complexity: "O(N) where N is the number of keys",
			summary: summary, args: args, run: run,
		}
	}
	backup := row("BACKUP", 2, flagClient|flagAdmin, "Makes a copy of the data in a new folder below dir, by hard links; returns its path.",
		(*call).backup, argument{name: "folder", kind: "string"})
	backup.complexity = "O(1)"
	lastSave := row("LASTSAVE", 1, flagFast|flagLoading|flagStale, "Returns the time of the last snapshot in Unix seconds, or of the server's start if there is none.", (*call).lastSave)
	lastSave.complexity = "O(1)"
	return []command{
		row("SAVE", 1, flagClient|flagAdmin, "Writes a snapshot and returns when it is durable. Other connections are served meanwhile.", (*call).save),
		row("BGSAVE", -1, flagAdmin, "Writes a snapshot in the background.", (*call).bgSave,
			argument{name: "schedule", kind: "pure-token", token: "SCHEDULE", optional: true}),
		row("BGREWRITEAOF", 1, flagAdmin, "Writes a snapshot in the background, and drops the log before it.", (*call).bgRewrite),
		lastSave,
		backup,
	}
}

// keeps reports whether the server keeps its state on disk. If not, it replies with an error.
func (c *call) keeps() bool {
	if c.srv.durable.stats().Kept {
		return true
	}
	c.fail(errNoPersistence)
	return false
}

func (c *call) save() {
	if !c.keeps() {
		return
	}
	c.inBackground(c.srv.Snapshot, func(err error) {
		if err != nil {
			c.fail(snapshotError(err))
			return
		}
		c.ok()
	})
}

func (c *call) bgSave() {
	if len(c.args) > 2 || len(c.args) == 2 && !foldEqual(c.args[1], "SCHEDULE") {
		c.fail(errSyntax)
		return
	}
	c.background("Background saving started")
}

func (c *call) bgRewrite() {
	c.background("Background append only file rewriting started")
}

// background begins a snapshot that no client waits for.
func (c *call) background(reply string) {
	if !c.keeps() {
		return
	}
	srv := c.srv
	if srv.durable.Stats().Snapshotting || !srv.durable.running.CompareAndSwap(false, true) {
		c.fail(errSnapshotting)
		return
	}
	go func() {
		defer srv.durable.running.Store(false)
		if err := srv.Snapshot(); err != nil && !errors.Is(err, ErrSnapshotting) {
			srv.log.Error("a snapshot failed", "err", err)
		}
	}()
	c.simple(reply)
}

func (c *call) lastSave() {
	at := c.srv.started
	if st := c.srv.durable.stats(); st.LastSnapshot > 0 {
		at = st.LastSnapshot
	}
	c.int(at / int64(time.Second))
}

func (c *call) backup() {
	if !c.keeps() {
		return
	}
	name := string(c.args[1])
	var path string
	c.inBackground(func() (err error) {
		path, err = c.srv.durable.Backup(name)
		return err
	}, func(err error) {
		if err != nil {
			c.fail(snapshotError(err))
			return
		}
		c.text(path)
	})
}
