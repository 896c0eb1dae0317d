package main

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/backups"
	"limitdb/cmd/limitdb/cli"
	"limitdb/cmd/limitdb/serve"
	"limitdb/config"
	"limitdb/internal/disk"
	"limitdb/internal/english"
	"limitdb/resp"
)

const archiveEnd = ".tar"

func backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup --to DIR|FILE.tar|- [-a ADDRESS] [FILE] [--directive value …]",
		Short: "Make a backup of a running server or node, and verify it",
		Long: `Connects as limitdb ping does, reads all state as it is now, stores and verifies it. The server goes on
meanwhile. On a node of a cluster, the backup is the state of one index of its log; a node that leads has everything
that the cluster has answered.

--to names a new directory; if it exists, the backup is a new directory in it, named by the time. A name that ends in .tar is an
archive of that directory, and - writes the archive to standard output, where only what comes from the server is
verified. Nothing is there under the name before all of it is durable and verified. limitdb restore makes a data
directory from a backup.

The password comes from the configuration, such as LIMITDB_REQUIREPASS or --requirepass-file.`,
		Example: "  limitdb backup --to /srv/backups\n  limitdb backup --to - | ssh host 'cat > limitdb.tar'",
	}
	c.Flags().String("to", "", "a new `directory`, an archive (FILE.tar) or - for standard output")
	return asking(c, func(args []string) error {
		args, to, err := cutTo(args)
		if err != nil {
			return cli.UsageError(err)
		}
		set, err := settingsOf(args)
		if err != nil {
			return err
		}
		return backup(set, to, c.OutOrStdout())
	})
}

// cutTo cuts --to and its value out of arguments.
func cutTo(args []string) (rest []string, to string, err error) {
	for i := 0; i < len(args); i++ {
		switch value, joined := strings.CutPrefix(args[i], "--to="); {
		case joined:
			to = value
		case args[i] == "--to" && i+1 < len(args):
			i++
			to = args[i]
		default:
			rest = append(rest, args[i])
		}
	}
	if to == "" {
		return nil, "", errors.New("say where the backup goes: --to DIR, --to FILE.tar or --to -")
	}
	return rest, to, nil
}

// backup makes a backup of the server with these settings.
func backup(set *config.Settings, to string, out io.Writer) (err error) {
	c, err := connect(set)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	name, files, err := c.beginBackup()
	if err != nil {
		return err
	}
	at := time.Now()
	if to == "-" {
		err = backups.WriteArchive(out, files, at)
		return errors.Join(err, c.endBackup(name, err))
	}
	if st, err := os.Stat(to); err == nil && st.IsDir() {
		to = filepath.Join(to, "limitdb-"+at.UTC().Format("20060102T150405Z"))
	}
	var checked serve.Checked
	if strings.HasSuffix(to, archiveEnd) {
		checked, err = storeArchive(to, files, at)
	} else {
		checked, err = serve.StoreBackup(to, files)
	}
	if err := errors.Join(err, c.endBackup(name, err)); err != nil {
		return err
	}
	bytes := int64(0)
	for _, f := range files {
		bytes += f.Bytes
	}
	fmt.Fprintf(out, "%s is whole and verified: %s, %d bytes\n", to, english.Count(len(files), "file"), bytes)
	if len(checked.Groups) < checked.Of {
		fmt.Fprintf(out, "the node has the groups %s of %d: back up others as well, so that each group is in a backup\n", strings.Trim(fmt.Sprint(checked.Groups), "[]"), checked.Of)
	}
	return nil
}

// storeArchive makes an archive, which is there only when it is whole, durable and verified.
func storeArchive(path string, files []backups.File, at time.Time) (checked serve.Checked, err error) {
	if _, err := os.Lstat(path); err == nil {
		return checked, fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	// The code that reads a data directory verifies what an archive is made of.
	dir := strings.TrimSuffix(path, archiveEnd) + disk.TmpSuffix
	if err := os.RemoveAll(dir); err != nil {
		return checked, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	inner := filepath.Join(dir, "backup")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return checked, err
	}
	if checked, err = serve.StoreBackup(inner, files); err != nil {
		return checked, err
	}
	if files, err = backups.List(inner); err != nil {
		return checked, err
	}
	tmp := path + disk.TmpSuffix
	defer func() {
		if err != nil {
			_ = os.Remove(tmp) // it may not be there
		}
	}()
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return checked, err
	}
	err = backups.WriteArchive(f, files, at)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = backups.VerifyArchive(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return checked, err
	}
	return checked, cmp.Or(os.Rename(tmp, path), disk.OS{}.SyncDir(filepath.Dir(path)))
}

// beginBackup opens a backup. The files read from the server as they are read.
func (c *client) beginBackup() (name string, files []backups.File, err error) {
	v, err := c.askSlowly("RL.BACKUP", "BEGIN")
	if err != nil {
		return "", nil, err
	}
	if len(v.Elems) != 2 {
		return "", nil, errReply
	}
	name = v.Elems[0].Text
	for _, f := range v.Elems[1].Elems {
		if len(f.Elems) != 2 {
			return "", nil, errReply
		}
		file := f.Elems[0].Text
		files = append(files, backups.File{Name: file, Bytes: f.Elems[1].Int, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(&pieces{c: c, backup: name, file: file, most: f.Elems[1].Int}), nil
		}})
	}
	return name, files, nil
}

// endBackup closes a backup. failed is why it is not whole, nil if it is.
func (c *client) endBackup(name string, failed error) error {
	outcome := "WHOLE"
	if failed != nil {
		outcome = "FAILED"
	}
	_, err := c.ask("RL.BACKUP", "END", name, outcome)
	if failed != nil {
		return nil // the first error says more
	}
	return err
}

var (
	errReply = errors.New("the server's reply is not one of this version")
	errPiece = errors.New("a piece of the backup was changed on its way")
)

// pieces reads a file of a backup.
type pieces struct {
	c            *client
	backup, file string
	offset, most int64
	left         []byte
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		if p.offset >= p.most {
			return 0, io.EOF
		}
		v, err := p.c.askSlowly("RL.BACKUP", "READ", p.backup, p.file, strconv.FormatInt(p.offset, 10))
		if err != nil {
			return 0, err
		}
		if len(v.Elems) != 2 {
			return 0, errReply
		}
		piece := []byte(v.Elems[0].Text)
		if int64(crc32.Checksum(piece, crc32.MakeTable(crc32.Castagnoli))) != v.Elems[1].Int || len(piece) == 0 {
			return 0, errPiece
		}
		p.left, p.offset = piece, p.offset+int64(len(piece))
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

func restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore BACKUP... DIR",
		Short: "Make a data directory from a backup",
		Long: `Verifies a backup, which is a directory, an archive, or - for an archive on standard input, and makes DIR, from which a
standalone server can start, or the first node of a new cluster, with --raft-bootstrap yes. It changes nothing in the backup.

In a cluster of several groups, a backup of a node has the groups of which the node has a replica. Give backups of several nodes if no
one has all; of each group, the newest counts.`,
		Example: "  limitdb restore /srv/backups/limitdb-20261123T100000Z data\n  limitdb --dir data",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			to := args[len(args)-1]
			at, err := restore(args[:len(args)-1], to, c.InOrStdin())
			if errors.Is(err, backups.ErrBackup) {
				err = cli.WithStatus(err, cli.ExitCorrupt)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s has the state of %s\n", to, at)
			return nil
		},
	}
}

// restore makes a data directory from backups, and returns of when its state is. It is there only when it is whole.
func restore(from []string, to string, in io.Reader) (at string, err error) {
	to = filepath.Clean(to) // a slash at its end is not part of the name
	if _, err := os.Lstat(to); err == nil {
		return "", fmt.Errorf("%s: %w: give a directory that is not there yet", to, fs.ErrExist)
	}
	work := to + disk.TmpSuffix
	if err := cmp.Or(os.RemoveAll(work), os.Mkdir(work, 0o700)); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	copies, checked := make([]string, len(from)), serve.Checked{}
	for i, path := range from {
		copies[i] = filepath.Join(work, strconv.Itoa(i))
		if err := unpack(path, copies[i], in); err != nil {
			return "", err
		}
		if checked, err = serve.CheckBackup(copies[i]); err != nil {
			return "", err
		}
		if len(from) > 1 && checked.Of == 0 {
			return "", fmt.Errorf("%s is of a standalone server: give it alone", path)
		}
	}
	made, at := copies[0], timeOf(checked.Clock)
	if checked.Of > 0 {
		made = filepath.Join(work, "exported")
		groups, clock, _, err := serve.Export(made, copies...)
		if err != nil {
			return "", err
		}
		if _, err := serve.CheckBackup(made); err != nil {
			return "", err
		}
		if at = timeOf(clock); len(groups) == 1 {
			at += fmt.Sprintf(", index %d", groups[0].Index)
		}
	} else if err := os.Remove(filepath.Join(made, backups.SumsFile)); err != nil {
		return "", err
	}
	return at, cmp.Or(os.Rename(made, to), disk.OS{}.SyncDir(filepath.Dir(to)))
}

// unpack makes a copy of a backup, as a directory.
func unpack(from, to string, in io.Reader) (err error) {
	if from == "-" {
		return backups.Unpack(in, to)
	}
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		return errors.Join(backups.Unpack(f, to), f.Close())
	}
	if err := backups.Verify(from); err != nil {
		return err
	}
	files, err := backups.List(from)
	if err != nil {
		return err
	}
	return cmp.Or(backups.WriteDir(to, files), backups.Verify(to))
}

// askSlowly is ask for a command that may have to wait for a snapshot.
func (c *client) askSlowly(words ...string) (v resp.Value, err error) {
	if err := c.SetDeadline(time.Now().Add(backupTimeout)); err != nil {
		return v, err
	}
	if v, err = cli.Ask(c, c.r, 4<<20, words...); err == nil {
		err = v.Err()
	}
	return v, err
}

// backupTimeout is how long the server may take for one command of a backup.
const backupTimeout = 2 * time.Minute
