package server

import (
	"errors"
	"time"
)

// Snapshots and backups.
func saveCommands() []command {
	row := func(name string, arity int, f flags, summary string, run func(*session, [][]byte), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f, group: "server", since: "1.0.0", complexity: "O(N) where N is the number of keys",
			summary: summary, args: args, run: run,
		}
	}
	backup := row("BACKUP", 2, flagAdmin, "Makes a copy of the data, of hard links, in a new folder below dir, and replies its path.",
		(*session).backup, argument{name: "folder", kind: "string"})
	backup.complexity = "O(1)"
	lastSave := row("LASTSAVE", 1, flagFast|flagLoading|flagStale, "Replies when the last snapshot had been made, in Unix seconds; without any, when the server started.", (*session).lastSave)
	lastSave.complexity = "O(1)"
	return []command{
		row("SAVE", 1, flagAdmin, "Writes a snapshot, and replies when it is durable. Other connections go on.", (*session).save),
		row("BGSAVE", -1, flagAdmin, "Writes a snapshot in the background.", (*session).bgSave,
			argument{name: "schedule", kind: "pure-token", token: "SCHEDULE", optional: true}),
		row("BGREWRITEAOF", 1, flagAdmin, "Writes a snapshot in the background, and drops the log before it.", (*session).bgRewrite),
		lastSave,
		backup,
	}
}

// keeps reports whether anything is kept on a disk, and replies that nothing is.
func (s *session) keeps() bool {
	if s.srv.durable.stats().Kept {
		return true
	}
	s.fail(errNoPersistence)
	return false
}

func (s *session) save([][]byte) {
	if !s.keeps() {
		return
	}
	s.inBackground(s.srv.Snapshot, func(err error) {
		if err != nil {
			s.fail(snapshotError(err))
			return
		}
		s.ok()
	})
}

func (s *session) bgSave(args [][]byte) {
	if len(args) > 2 || len(args) == 2 && !foldEqual(args[1], "SCHEDULE") {
		s.fail(errSyntax)
		return
	}
	s.background("Background saving started")
}

func (s *session) bgRewrite([][]byte) {
	s.background("Background append only file rewriting started")
}

// background begins a snapshot that nobody waits for.
func (s *session) background(reply string) {
	if !s.keeps() {
		return
	}
	srv := s.srv
	if srv.durable.Stats().Snapshotting || !srv.durable.running.CompareAndSwap(false, true) {
		s.fail(errSnapshotting)
		return
	}
	go func() {
		defer srv.durable.running.Store(false)
		if err := srv.Snapshot(); err != nil && !errors.Is(err, ErrSnapshotting) {
			srv.log.Error("a snapshot failed", "err", err)
		}
	}()
	s.simple(reply)
}

func (s *session) lastSave([][]byte) {
	at := s.srv.started
	if st := s.srv.durable.stats(); st.LastSnapshot > 0 {
		at = st.LastSnapshot
	}
	s.int(at / int64(time.Second))
}

func (s *session) backup(args [][]byte) {
	if !s.keeps() {
		return
	}
	name := string(args[1])
	var path string
	s.inBackground(func() (err error) {
		path, err = s.srv.durable.Backup(name)
		return err
	}, func(err error) {
		if err != nil {
			s.fail(snapshotError(err))
			return
		}
		s.text(path)
	})
}
