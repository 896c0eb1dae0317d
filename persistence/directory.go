package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"limitdb/internal/disk"
)

// directory is a data directory, and which of its files count.
type directory struct {
	fs      disk.FS
	dir     string // its path
	log     *slog.Logger
	entropy io.Reader // makes ids
	lock    io.Closer // on the directory; nil if there is none
	// boot is the id of the machine's start in the headers of this run's files.
	boot uint64

	files  sync.Mutex // guards the fields below; held while the set of files changes
	man    *manifest  // nil for none
	number uint64     // of the last file
	// dropped: the only MANIFEST was retired, so nothing in the directory counts.
	dropped bool
	doubt   bool // the MANIFEST on disk may differ from man
}

// take makes the directory if needed, and locks it.
func (d *directory) take() error {
	if err := d.fs.Mkdir(d.dir); err == nil {
		// The directory's name must be durable before anything in it is.
		if err := d.fs.SyncDir(parent(d.dir)); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := disk.Lock(d.dir, false)
	d.lock = lock
	return err
}

// retake makes sure that the directory exists and is this one. The caller holds files.
func (d *directory) retake() error {
	held, system := d.lock.(*os.File)
	if err := d.here(); system && !errors.Is(err, errLost) {
		return err
	}
	if err := d.fs.Mkdir(d.dir); err == nil {
		if err := d.fs.SyncDir(parent(d.dir)); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	} else if system {
		d.syncName()
	}
	if !system {
		return nil
	}
	lock, err := disk.Lock(d.dir, false)
	if err != nil {
		return err
	}
	if HasData(d.dir) {
		lock.Close()
		return fmt.Errorf("%w: another directory with data has taken its place, and is left alone", errLost)
	}
	held.Close()
	d.lock = lock
	return nil
}

// here returns errLost if the directory's name does not refer to the one that was locked: whatever has its name now is not the store's.
func (d *directory) here() error {
	held, system := d.lock.(*os.File)
	if !system {
		return nil
	}
	there, err := disk.Named(held, d.dir)
	if err == nil && !there {
		err = fmt.Errorf("%w: %s", errLost, d.dir)
	}
	return err
}

// Release unlocks a directory that Open has taken and nobody has loaded.
func (d *directory) Release() {
	if d.lock != nil {
		d.lock.Close()
		d.lock = nil
	}
}

// path returns the path of a file.
func (d *directory) path(name string) string { return filepath.Join(d.dir, name) }

// parent returns the directory that contains dir.
func parent(dir string) string { return filepath.Dir(filepath.Clean(dir)) }

// Empty reports whether Open found nothing to load.
func (d *directory) Empty() bool {
	return d.man == nil || d.man.base == nil && len(d.man.logs) == 0
}

// Instance returns the id of the directory, which stays the same for as long as it has data.
func (d *directory) Instance() [16]byte {
	d.files.Lock()
	defer d.files.Unlock()
	if d.man == nil {
		return [16]byte{}
	}
	return d.man.instance
}

// HasData reports whether a directory of the system's file system has data that a start would load, or files
// that no MANIFEST accounts for.
func HasData(dir string) bool {
	d := &directory{fs: disk.OS{}, dir: dir, log: slog.New(slog.DiscardHandler)}
	err := d.readManifest()
	var corrupt *CorruptError
	return !d.Empty() || errors.As(err, &corrupt) || errors.Is(err, ErrNoManifest) || errors.Is(err, ErrFormat)
}

// syncName makes the name of a directory durable that was there already: whoever made it may have been killed before that. It is
// none of the store's business if it cannot.
func (d *directory) syncName() { _ = d.fs.SyncDir(parent(d.dir)) }

// begin writes the first MANIFEST of a directory, which names no files. If there are files and no MANIFEST
// later, it was lost.
func (d *directory) begin() error {
	d.syncName()
	d.man = &manifest{}
	if _, err := io.ReadFull(d.entropy, d.man.instance[:]); err != nil {
		return fmt.Errorf("making an id: %w", err)
	}
	d.man.instance[6] = d.man.instance[6]&0x0f | 0x40 // a UUID of version 4
	d.man.instance[8] = d.man.instance[8]&0x3f | 0x80
	return d.writeManifest(d.man)
}

// randomID returns a random number that is not 0.
func (d *directory) randomID() (uint64, error) {
	var b [8]byte
	for {
		if _, err := io.ReadFull(d.entropy, b[:]); err != nil {
			return 0, fmt.Errorf("making an id: %w", err)
		}
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id, nil
		}
	}
}

// newLog makes a log file with the next number.
func (d *directory) newLog() (*logFile, error) {
	id, err := d.randomID()
	if err != nil {
		return nil, err
	}
	if err := d.here(); err != nil {
		return nil, err
	}
	h := header{instance: d.man.instance, boot: d.boot}
	if d.man.base != nil {
		h.base = d.man.base.id
	}
	d.number++
	return createLog(d.fs, d.dir, logEntry{number: d.number, id: id}, &h)
}

// readManifest reads MANIFEST, or finds that there is no data.
func (d *directory) readManifest() error {
	m, err := readManifestFile(d.fs, d.path(manifestName))
	if !errors.Is(err, fs.ErrNotExist) {
		d.man = m
		return err
	}
	m, err = readManifestFile(d.fs, d.path(retiredName))
	if err == nil {
		d.log.Warn("the log was turned off while the server ran: the directory's state is older than what clients were told, and is dropped", "dir", d.dir)
		d.man, d.dropped = &manifest{instance: m.instance}, true // its files are leftovers
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names, err := d.fs.List(d.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if _, _, data := fileNumber(name); data {
			return fmt.Errorf("%w (%s)", ErrNoManifest, d.path(name))
		}
	}
	return nil
}

// writeManifest makes m durable as the MANIFEST. After an error, the MANIFEST on disk is either the old one or m.
func (d *directory) writeManifest(m *manifest) error {
	b, err := m.seal()
	if err == nil {
		err = d.here()
	}
	if err != nil {
		return err
	}
	name := d.path(manifestName)
	if err := disk.Write(d.fs, name+tmpSuffix, b, true); err != nil {
		return err
	}
	d.doubt = true
	if err := disk.Publish(d.fs, name); err != nil {
		return err
	}
	d.doubt = false
	return nil
}

// lacks returns the name of a file without which a start would fail or find nothing: that of MANIFEST if it is missing, damaged or not that of
// an instance, or of a file that is missing though MANIFEST names it. It returns "" if there is none, as far as it can see.
func (d *directory) lacks(instance [16]byte) string {
	m, err := readManifestFile(d.fs, d.path(manifestName))
	var corrupt *CorruptError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &corrupt) || err == nil && m.instance != instance {
		return manifestName
	}
	if err != nil {
		return ""
	}
	names, err := d.fs.List(d.dir)
	if err != nil {
		return ""
	}
	for _, name := range m.files() {
		if !slices.Contains(names, name) {
			return name
		}
	}
	return ""
}

// setAside renames MANIFEST, durably. After an error it has its name; after errLost, perhaps only until a power cut.
func (d *directory) setAside() error {
	if err := d.here(); err != nil {
		return err
	}
	name, aside := d.path(manifestName), d.path(retiredName)
	if err := d.fs.Rename(name, aside); errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has removed it
	} else if err != nil {
		return err
	}
	err := d.fs.SyncDir(d.dir)
	if err == nil {
		return nil
	}
	// The store continues and needs its MANIFEST. The disk may have the new name even so.
	back := d.fs.Rename(aside, name)
	if back == nil {
		back = d.fs.SyncDir(d.dir)
	}
	if back != nil {
		return fmt.Errorf("%w: %s: %w", errLost, name, errors.Join(err, back))
	}
	return err
}

// removeClean removes CLEAN, durably, before the store writes anything that CLEAN does not cover.
func (d *directory) removeClean() error {
	err := d.fs.Remove(d.path(cleanName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.fs.SyncDir(d.dir)
}

// removeRest removes the files that the MANIFEST does not name, unless it is unknown which MANIFEST is on disk, or another directory
// has taken the place.
// A file that cannot be removed now is removed after the next start.
func (d *directory) removeRest() {
	if d.doubt || d.here() != nil {
		return
	}
	names, err := d.fs.List(d.dir)
	if err != nil {
		d.log.Warn("listing the directory failed", "err", err)
		return
	}
	for _, name := range names {
		if !isLeftover(name, d.man) {
			continue
		}
		if err := d.fs.Remove(d.path(name)); err != nil {
			d.log.Warn("removing a file that is no longer needed failed", "err", err)
		}
	}
	if err := d.fs.SyncDir(d.dir); err != nil {
		d.log.Warn("syncing the directory failed", "err", err)
	}
}

// isLeftover reports whether the store makes files of this name and m does not list it.
func isLeftover(name string, m *manifest) bool {
	if unfinished, is := strings.CutSuffix(name, tmpSuffix); is { // others finish files here as well, perhaps just now
		return isData(unfinished) || unfinished == manifestName || unfinished == cleanName
	}
	return isData(name) && !m.names(name) || name == retiredName
}
