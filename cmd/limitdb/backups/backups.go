// Package backups stores the files of a backup, in a directory or in an archive, and verifies them.
package backups

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"limitdb/internal/disk"
)

// SumsFile is the file in each backup with the SHA-256 of all others, in the form of sha256sum. It is the last one of an archive.
const SumsFile = "SHA256SUMS"

// mostSums is the most bytes that SumsFile may have.
const mostSums = 16 << 20

// ErrBackup is returned for files that are no backup, or not all of one.
var ErrBackup = errors.New("not a whole backup")

// A File is a file of a backup.
type File struct {
	Name  string // a path with slashes
	Bytes int64
	// Open returns the contents. It may be called once.
	Open func() (io.ReadCloser, error)
}

// valid reports whether a file of a backup may have the name.
func valid(name string) bool {
	return filepath.IsLocal(name) && name == filepath.ToSlash(filepath.Clean(name)) && !strings.ContainsAny(name, "\\\n\r") && name != SumsFile
}

// copyFile copies a file, and returns its line of SumsFile.
func copyFile(to io.Writer, f *File) (line string, err error) {
	from, err := f.Open()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, h), from)
	if err == nil && n != f.Bytes {
		err = fmt.Errorf("%w: %s has %d bytes, and not %d", ErrBackup, f.Name, n, f.Bytes)
	}
	return hex.EncodeToString(h.Sum(nil)) + "  " + f.Name + "\n", errors.Join(err, from.Close())
}

// WriteArchive writes files, and their sums, as a tar archive.
func WriteArchive(to io.Writer, files []File, at time.Time) error {
	w := tar.NewWriter(to)
	header := func(name string, bytes int64) error {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: bytes, Mode: 0o600, ModTime: at.Truncate(time.Second), Format: tar.FormatPAX})
	}
	var sums strings.Builder
	for i := range files {
		f := &files[i]
		if !valid(f.Name) {
			return fmt.Errorf("%w: a file named %q", ErrBackup, f.Name)
		}
		if err := header(f.Name, f.Bytes); err != nil {
			return err
		}
		line, err := copyFile(w, f)
		if err != nil {
			return err
		}
		sums.WriteString(line)
	}
	if err := header(SumsFile, int64(sums.Len())); err != nil {
		return err
	}
	_, err := io.WriteString(w, sums.String())
	return errors.Join(err, w.Close())
}

// WriteDir makes a directory, which must not exist, with files and their sums. All of it is durable when WriteDir returns nil, but for the
// directory's name.
func WriteDir(dir string, files []File) error { return writeDir(disk.OS{}, dir, files) }

func writeDir(fsys disk.FS, dir string, files []File) error {
	t, err := newTree(fsys, dir)
	for i := range files {
		if err == nil {
			err = t.add(&files[i])
		}
	}
	if err != nil {
		return err
	}
	return t.finish()
}

// syncStretch is how many bytes are written between two syncs, so that the disk is never busy for long.
const syncStretch = 4 << 20

// tree is a directory that gets the files of a backup.
type tree struct {
	fs   disk.FS
	dir  string
	dirs []string // the directories in it, each behind the one that it is in
	sums strings.Builder
}

// newTree makes a directory, which must not exist.
func newTree(fsys disk.FS, dir string) (*tree, error) {
	return &tree{fs: fsys, dir: dir}, fsys.Mkdir(dir)
}

// add writes a file, durably, but for its name.
func (t *tree) add(f *File) error {
	if !valid(f.Name) {
		return fmt.Errorf("%w: a file named %q", ErrBackup, f.Name)
	}
	if err := t.makeDirs(filepath.Dir(filepath.FromSlash(f.Name))); err != nil {
		return err
	}
	path := filepath.Join(t.dir, filepath.FromSlash(f.Name))
	if there, err := t.fs.Open(path); err == nil {
		return errors.Join(fmt.Errorf("%w: two files are named %q", ErrBackup, f.Name), there.Close())
	}
	to, err := t.fs.Create(path)
	if err != nil {
		return err
	}
	s := &disk.Stretch{File: to, Bytes: syncStretch}
	line, err := copyFile(s, f)
	if err == nil {
		err = s.Sync()
	}
	t.sums.WriteString(line)
	return errors.Join(err, to.Close())
}

// makeDirs makes a directory of the tree, and those that it is in, unless they are there.
func (t *tree) makeDirs(dir string) error {
	if dir == "." || slices.Contains(t.dirs, dir) {
		return nil
	}
	if err := t.makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	t.dirs = append(t.dirs, dir)
	return t.fs.Mkdir(filepath.Join(t.dir, dir))
}

// finish writes the sums and makes all names in the tree durable.
func (t *tree) finish() error {
	if err := disk.Write(t.fs, filepath.Join(t.dir, SumsFile), []byte(t.sums.String()), true); err != nil {
		return err
	}
	for _, dir := range append([]string{"."}, t.dirs...) {
		if err := t.fs.SyncDir(filepath.Join(t.dir, dir)); err != nil {
			return err
		}
	}
	return nil
}

// Unpack makes a directory, which must not exist, with the files of an archive, and compares them with their sums.
func Unpack(from io.Reader, dir string) error {
	t, err := newTree(disk.OS{}, dir)
	if err != nil {
		return err
	}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		switch {
		case err == io.EOF:
			return fmt.Errorf("%w: it has no %s at its end", ErrBackup, SumsFile)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrBackup, err)
		case h.Name == SumsFile:
			said, err := io.ReadAll(io.LimitReader(r, mostSums))
			if err != nil {
				return fmt.Errorf("%w: %w", ErrBackup, err)
			}
			if string(said) != t.sums.String() {
				return fmt.Errorf("%w: the files differ from their sums", ErrBackup)
			}
			return t.finish()
		case h.Typeflag != tar.TypeReg:
			return fmt.Errorf("%w: %q is no file", ErrBackup, h.Name)
		}
		if err := t.add(&File{Name: h.Name, Bytes: h.Size, Open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil }}); err != nil {
			return err
		}
	}
}

// List returns the files below a directory, in the order of their names, without SumsFile and names that the caller leaves out.
func List(dir string, without ...string) ([]File, error) {
	var all []File
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == SumsFile || slices.Contains(without, name) {
			return err
		}
		st, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if !st.Mode().IsRegular() {
			return fmt.Errorf("%w: %s is no file", ErrBackup, path)
		}
		all = append(all, File{Name: filepath.ToSlash(name), Bytes: st.Size(), Open: func() (io.ReadCloser, error) { return os.Open(path) }})
		return nil
	})
	return all, err
}

// Verify reads all files of a backup in a directory and compares them with their sums. It returns ErrBackup if a file differs, is missing, or is
// one too many.
func Verify(dir string) error {
	f, err := os.Open(filepath.Join(dir, SumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s has no %s", ErrBackup, dir, SumsFile)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	said := map[string]bool{}
	lines := bufio.NewScanner(io.LimitReader(f, mostSums))
	for lines.Scan() {
		said[lines.Text()+"\n"] = true
	}
	if err := lines.Err(); err != nil {
		return err
	}
	files, err := List(dir)
	if err != nil {
		return err
	}
	for i := range files {
		line, err := copyFile(io.Discard, &files[i])
		if err != nil {
			return err
		}
		if !said[line] {
			return fmt.Errorf("%w: %s is not the file that was backed up", ErrBackup, filepath.Join(dir, files[i].Name))
		}
		delete(said, line)
	}
	for line := range said {
		return fmt.Errorf("%w: a file is missing: %s", ErrBackup, strings.TrimSpace(line[min(len(line), 2*sha256.Size):]))
	}
	return nil
}

// VerifyArchive reads an archive and compares its files with their sums.
func VerifyArchive(from io.Reader) error {
	var sums strings.Builder
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBackup, err)
		}
		if h.Name == SumsFile {
			said, err := io.ReadAll(io.LimitReader(r, mostSums))
			if err != nil || string(said) != sums.String() {
				return fmt.Errorf("%w: the files differ from their sums", errors.Join(ErrBackup, err))
			}
			return nil
		}
		line, err := copyFile(io.Discard, &File{Name: h.Name, Bytes: h.Size, Open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil }})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBackup, err)
		}
		sums.WriteString(line)
	}
}
