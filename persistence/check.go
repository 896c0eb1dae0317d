package persistence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
)

// CheckOptions configures Check. Fields whose comment names no default must be set.
type CheckOptions struct {
	Dir string
	// FS is where Dir is; nil means the system's, and that Dir is locked meanwhile.
	FS FS
	// Repair is a directory to make, with all that can still be read; "" for none.
	Repair string
	// Dump gets every record that can be read as a line of JSON; nil for nowhere.
	Dump io.Writer
	// Progress is called with the bytes read and to read; may be nil.
	Progress func(done, total int64)
	// Entropy makes the ids of the repaired copy; nil means crypto/rand.
	Entropy io.Reader
}

// Report is what Check has found.
type Report struct {
	Instance string // the directory's UUID; "" where nothing tells
	Clean    bool   // the last run ended by itself, with all durable
	Files    []FileReport
	// Problems are what keeps a server from starting, in the order of the files.
	Problems []*CorruptError
	// Torn is the tail of the last log where a crash cut a write short; nil for
	// none. The next start cuts it off by itself.
	Torn *CorruptError
}

// FileReport is about one base or log.
type FileReport struct {
	Name                        string
	Bytes                       int64
	Batches                     int
	Sets, Deletes, Flushes      int
	FirstSequence, LastSequence uint64 // of its batches; 0 without any
	Lost                        int64  // bytes that are not part of a batch that can be read
	Zeros                       int64  // bytes at its end that were written ahead of batches which did not come
	FirstClock, LastClock       int64  // of its batches, Unix ns
}

// checker is a Check under way.
type checker struct {
	o    CheckOptions
	fs   FS
	rep  Report
	man  *manifest // as far as is known
	fix  *repairer // nil without Repair
	dump *dumper   // nil without Dump

	done, total int64
}

// Check reads everything in a directory that no server uses and tells what is
// wrong with it. It changes nothing there. The error is ErrNoData or about
// reading and writing; what is wrong with the data is in the report.
func Check(o CheckOptions) (*Report, error) {
	c := &checker{o: o, fs: o.FS}
	if c.fs == nil {
		c.fs = OS{}
		lock, err := Lock(o.Dir)
		if err != nil {
			return nil, err
		}
		defer lock.Close()
	}
	if o.Dump != nil {
		c.dump = &dumper{w: o.Dump}
	}
	files, err := c.plan()
	if err != nil {
		return nil, err
	}
	if o.Repair != "" {
		if c.fix, err = newRepairer(c.fs, &o, c.man.instance); err != nil {
			return nil, err
		}
		defer c.fix.close()
	}
	if err := c.files(files); err != nil {
		return nil, err
	}
	if c.fix != nil {
		return &c.rep, c.fix.finish()
	}
	return &c.rep, nil
}

// ErrNoData is of a folder in which no server has kept anything.
var ErrNoData = errors.New("has no data of limitdb: it holds neither a MANIFEST nor a log nor a snapshot")

// isData reports whether a file of that name is a log or a snapshot.
func isData(name string) bool {
	_, _, data := fileNumber(name)
	return data
}

func (c *checker) problem(name string, off int64, reason string) {
	c.rep.Problems = append(c.rep.Problems, &CorruptError{filepath.Join(c.o.Dir, name), off, reason})
}

// plan reads the MANIFEST and says which files to read: those that it names or,
// without it, all that there are.
func (c *checker) plan() ([]string, error) {
	names, err := c.fs.List(c.o.Dir)
	if err != nil {
		return nil, err
	}
	c.man = &manifest{}
	b, err := readFile(c.fs, filepath.Join(c.o.Dir, manifestName))
	if err == nil {
		var m *manifest
		if m, err = parseManifest(b); err == nil {
			c.man = m
			c.rep.Instance = fmt.Sprintf("%x-%x-%x-%x-%x", m.instance[:4], m.instance[4:6], m.instance[6:8], m.instance[8:10], m.instance[10:])
		}
	}
	var files []string
	if errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(names, isData) {
		return nil, fmt.Errorf("%s %w", c.o.Dir, ErrNoData)
	}
	if err != nil {
		c.problem(manifestName, 0, err.Error())
		for _, name := range names {
			if isData(name) {
				files = append(files, name)
			}
		}
		slices.Sort(files) // bases first, then by number
	} else {
		if c.man.base != nil {
			files = append(files, c.man.base.name())
		}
		for _, l := range c.man.logs {
			files = append(files, l.name())
		}
	}
	for _, name := range files {
		if f, err := c.fs.Open(filepath.Join(c.o.Dir, name)); err == nil {
			size, _ := f.Size()
			c.total += size
			f.Close()
		}
	}
	if b, err := readFile(c.fs, filepath.Join(c.o.Dir, cleanName)); err == nil {
		_, err := parseClean(b)
		c.rep.Clean = err == nil
	}
	return files, nil
}

// files reads all files.
func (c *checker) files(files []string) error {
	seq := uint64(0)
	// The tail of a log may be torn if nothing was written to the ones after it.
	tail := len(files) - 1
	for tail > 0 {
		empty, err := c.empty(files[tail])
		if err != nil {
			return err
		}
		if !empty {
			break
		}
		tail--
	}
	for i, name := range files {
		if e := c.man.logAt(name); e != nil && e.first != 0 {
			seq = e.first
		}
		var err error
		if seq, err = c.file(name, seq, i >= tail); err != nil {
			return err
		}
	}
	return nil
}

// empty tells whether a file has at most a header and zeros.
func (c *checker) empty(name string) (bool, error) {
	f, err := c.fs.Open(filepath.Join(c.o.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	r := reader{f: f, size: size}
	end, err := r.dataEnd(headerSize)
	return end == headerSize, err
}

// logAt is the entry of a log by its name, nil for none.
func (m *manifest) logAt(name string) *logEntry {
	for i := range m.logs {
		if m.logs[i].name() == name {
			return &m.logs[i]
		}
	}
	return nil
}

// file reads one file; seq is the sequence of its first batch if it is a log, 0
// for any; tail says that its tail may be torn. It returns the next file's.
func (c *checker) file(name string, seq uint64, tail bool) (uint64, error) {
	kind, _, _ := fileNumber(name)
	f, err := c.fs.Open(filepath.Join(c.o.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		c.problem(name, 0, "the file is missing")
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	rep := FileReport{Name: name}
	defer func() { c.rep.Files = append(c.rep.Files, rep) }()
	r, err := newReader(f, name, kind)
	if err != nil {
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) && !errors.Is(err, ErrFormat) {
			return 0, err
		}
		reason := err.Error()
		if corrupt != nil {
			reason = corrupt.Reason
		}
		c.problem(name, 0, reason)
		rep.Bytes, _ = f.Size()
		rep.Lost = rep.Bytes
		return 0, nil
	}
	rep.Bytes = r.size
	c.identify(name, r)
	r.seq = seq
	if kind == kindBase {
		r.seq = 1
	}
	ended, err := c.batches(r, &rep, tail && kind == kindLog)
	if err != nil {
		return 0, err
	}
	if kind == kindBase {
		if !ended {
			c.problem(name, r.size, "it has no end")
		}
		return 0, nil
	}
	return r.seq, nil
}

// identify compares a file with what the MANIFEST says of it.
func (c *checker) identify(name string, r *reader) {
	if c.man.instance == ([16]byte{}) {
		return
	}
	id, length := r.id, r.size
	if b := c.man.base; b != nil && b.name() == name {
		id, length = b.id, b.length
	} else if e := c.man.logAt(name); e != nil {
		id = e.id
	}
	switch {
	case r.instance != c.man.instance || r.id != id:
		c.problem(name, 0, "it is not the file that the MANIFEST names, but one of another directory or time")
	case r.size != length:
		c.problem(name, min(r.size, length), fmt.Sprintf("it has %d bytes, not %d", r.size, length))
	}
}

// batches reads a file's batches, also those behind damage. tail says that a
// torn tail is no problem. It tells whether the end of a base was there.
func (c *checker) batches(r *reader, rep *FileReport, tail bool) (ended bool, err error) {
	var ch chunk
	for {
		before := r.off
		err := r.read(&ch)
		for i := range ch.pieces {
			p := &ch.pieces[i]
			ended = p.flags == flagEnd
			if err := c.piece(r, rep, p); err != nil {
				return ended, err
			}
		}
		c.progress(r.off - before)
		var bad *badBatch
		switch {
		case err == io.EOF:
			rep.Zeros = rep.Bytes - r.size
			c.progress(rep.Zeros)
			return ended, nil
		case err == nil:
			continue
		case !errors.As(err, &bad):
			return ended, err
		}
		if err := c.damage(r, rep, bad, tail); err != nil {
			return ended, err
		}
	}
}

// damage takes note of what is wrong at an offset and goes to the next batch after it.
func (c *checker) damage(r *reader, rep *FileReport, bad *badBatch, tail bool) error {
	past, err := r.syncedPast(bad.off)
	if err != nil {
		return err
	}
	at, h, found, err := r.after(bad.off)
	if err == nil && found && at == bad.off && !bad.whole {
		at, h, found, err = r.after(bad.off + 1) // its header is right and its payload is not
	}
	if err != nil {
		return err
	}
	if tail && !past && !bad.whole {
		c.rep.Torn = &CorruptError{filepath.Join(c.o.Dir, r.name), bad.off, bad.reason}
		found = false // what follows was never promised to anybody
	} else {
		c.problem(r.name, bad.off, bad.reason)
	}
	switch {
	case found:
		r.seq = h.seq
	case r.kind == kindLog:
		if at, err = r.dataEnd(bad.off); err != nil {
			return err
		}
		r.size = at
	default:
		at = r.size
	}
	rep.Lost += at - bad.off
	c.progress(at - r.off)
	r.off = at
	return nil
}

func (c *checker) progress(n int64) {
	c.done += n
	if c.o.Progress != nil {
		c.o.Progress(c.done, c.total)
	}
}

// piece takes note of a batch and hands it to those who want it.
func (c *checker) piece(r *reader, rep *FileReport, p *piece) error {
	if rep.Batches++; rep.Batches == 1 {
		rep.FirstSequence, rep.FirstClock = p.seq, p.clock
	}
	rep.LastSequence, rep.LastClock = p.seq, p.clock
	if err := c.records(rep, r.name, p); err != nil {
		if errors.Is(err, errDump) {
			return err
		}
		c.problem(r.name, p.off, err.Error())
		return nil
	}
	if c.fix != nil {
		return c.fix.add(r.kind, p)
	}
	return nil
}
