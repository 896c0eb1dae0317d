package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

// CheckOptions configures Check. A field whose comment names no default must be set.
type CheckOptions struct {
	Dir string
	// FS is the file system of Dir; nil means the system's, and then Check locks Dir while it runs.
	FS disk.FS
	// Repair is the path of a directory to make and fill with everything that can still be read; "" means
	// none.
	Repair string
	// Dump receives each record that can be read, as a line of JSON; nil means nowhere.
	Dump io.Writer
	// Known reports whether a server can load states of a kind; nil means that it can load all.
	Known func(kind byte) bool
	// Sound returns an error for a whole state of a kind that cannot be read; nil means that none is looked at.
	Sound func(kind byte, state []byte) error
	// Boot has the same meaning as in Options.
	Boot func() (id uint64, elapsed int64)
	// Progress is called with the bytes read so far and the bytes to read; nil means no call.
	Progress func(done, total int64)
	// Entropy makes the ids of the repaired copy; nil means crypto/rand.
	Entropy io.Reader
}

// Report is the result of Check.
type Report struct {
	Instance string // the directory's UUID; "" if no file has it
	Clean    bool   // the last run ended in an orderly way, with everything durable
	Files    []FileReport
	// Problems are what keeps a server from starting, in the order of the files.
	Problems []*CorruptError
	// Torn is the end of the last log, if a crash cut a write short there; else nil. The next start cuts it
	// off by itself.
	Torn *CorruptError
}

// FileReport describes one base or log.
type FileReport struct {
	Name                            string
	Bytes                           int64
	Batches                         int
	Sets, Changes, Deletes, Flushes int
	FirstSequence, LastSequence     uint64 // of its batches; 0 if there are none
	Lost                            int64  // bytes that belong to no batch that can be read
	Dropped                         int    // records of incomplete groups, which do not count
	Zeros                           int64  // bytes of zeros at its end, written ahead for batches that did not come
	FirstClock, LastClock           int64  // of its batches, Unix ns
}

// checker is a Check in progress.
type checker struct {
	o    CheckOptions
	fs   disk.FS
	rep  Report
	man  *manifest // as far as it is known
	fix  *repairer // nil without Repair
	dump *dumper   // nil without Dump
	// start is what a server would find when it starts, and verdict what would stop it; nil for nothing.
	start   *recovery
	verdict *CorruptError
	// group holds the batches of an incomplete group, for fix.
	group []piece

	done, total int64
}

// Check reads everything in a directory that no server uses, and reports its damage. It changes
// nothing there. Its error is ErrNoData or that of reading or writing; the report has the
// defects of the data.
func Check(o CheckOptions) (*Report, error) {
	c := &checker{o: o, fs: o.FS}
	if c.fs == nil {
		c.fs = disk.OS{}
		lock, err := disk.Lock(o.Dir, false)
		if err != nil {
			return nil, err
		}
		defer lock.Close()
	}
	if o.Dump != nil {
		c.dump = &dumper{w: o.Dump}
	}
	if err := c.judge(); err != nil {
		return nil, err
	}
	files, err := c.plan()
	if err != nil {
		return nil, err
	}
	if o.Repair != "" {
		if c.fix, err = newRepairer(c.fs, o.Repair, o.Entropy, c.man.instance); err != nil {
			return nil, err
		}
		defer c.fix.close()
	}
	if err := c.files(files); err != nil {
		return nil, err
	}
	c.conclude()
	if c.fix != nil {
		return &c.rep, c.fix.finish()
	}
	return &c.rep, nil
}

func (c *checker) problem(name string, off int64, reason string) {
	c.rep.Problems = append(c.rep.Problems, &CorruptError{filepath.Join(c.o.Dir, name), off, reason})
}

// judge runs the code of a start on the directory, up to the point where records would be applied. What it
// finds goes to verdict; conclude makes a problem of it unless reading the files finds the same.
func (c *checker) judge() error {
	boot := c.o.Boot
	if boot == nil {
		boot = func() (uint64, int64) { return 0, 0 }
	}
	c.start = newRecovery(newStore(Options{Dir: c.o.Dir, FS: c.fs, Boot: boot, Log: slog.New(slog.DiscardHandler)}))
	defer c.start.close()
	err := c.start.s.readManifest()
	if err == nil && c.start.s.man == nil {
		err = &CorruptError{filepath.Join(c.o.Dir, manifestName), 0, "the file is missing"}
	}
	if err == nil {
		err = c.start.open()
	}
	if err == nil {
		err = c.start.verify()
	}
	var corrupt *CorruptError
	switch {
	case err == nil:
		c.rep.Clean = c.start.Clean
		if t := c.start.tail; t != nil {
			c.rep.Torn = &CorruptError{c.start.logs[c.start.written].name, t.off, t.reason}
		}
	case errors.As(err, &corrupt):
		c.verdict = corrupt
	case errors.Is(err, ErrNoManifest) || errors.Is(err, ErrFormat):
		c.verdict = &CorruptError{filepath.Join(c.o.Dir, manifestName), 0, err.Error()}
	default:
		return err
	}
	return nil
}

// conclude adds the verdict to the problems, unless it is one of them already.
func (c *checker) conclude() {
	v := c.verdict
	if v == nil {
		return
	}
	for _, p := range c.rep.Problems {
		if p.Offset == v.Offset && filepath.Base(p.File) == filepath.Base(v.File) {
			return
		}
	}
	c.rep.Problems = append([]*CorruptError{v}, c.rep.Problems...)
}

// plan returns the files to read: those that the MANIFEST names or, if it cannot be read or is incomplete,
// every file.
func (c *checker) plan() ([]string, error) {
	names, err := c.fs.List(c.o.Dir)
	if err != nil {
		return nil, err
	}
	c.man = &manifest{}
	if m := c.start.s.man; m != nil {
		c.man = m
		c.rep.Instance = fmt.Sprintf("%x-%x-%x-%x-%x", m.instance[:4], m.instance[4:6], m.instance[6:8], m.instance[8:10], m.instance[10:])
	}
	var files []string
	if c.start.s.man == nil && !slices.ContainsFunc(names, isData) && !slices.Contains(names, manifestName) {
		return nil, fmt.Errorf("%s %w", c.o.Dir, ErrNoData)
	}
	if c.start.s.man == nil || c.start.stale {
		c.man = &manifest{instance: c.man.instance}
		for _, name := range names {
			if isData(name) {
				files = append(files, name)
			}
		}
		slices.SortFunc(files, inOrder)
	} else {
		files = c.man.files()
	}
	for _, name := range files {
		if f, err := c.fs.Open(filepath.Join(c.o.Dir, name)); err == nil {
			size, _ := f.Size()
			c.total += size
			f.Close()
		}
	}
	return files, nil
}

// files reads all files.
func (c *checker) files(files []string) error {
	seq := uint64(0)
	for _, name := range files {
		if e := c.man.logAt(name); e != nil && e.first != 0 {
			seq = e.first
		}
		var err error
		if seq, err = c.file(name, seq); err != nil {
			return err
		}
	}
	return nil
}

// logAt returns the entry of the log with this name, or nil.
func (m *manifest) logAt(name string) *logEntry {
	for i := range m.logs {
		if m.logs[i].name() == name {
			return &m.logs[i]
		}
	}
	return nil
}

// file reads one file. seq is the sequence number of its first batch if it is a log, 0 for any. It returns
// the number with which the next file begins.
func (c *checker) file(name string, seq uint64) (uint64, error) {
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
		if r = c.known(name, f, kind, rep.Bytes); r == nil || corrupt == nil {
			rep.Lost = rep.Bytes
			return 0, nil
		}
	}
	rep.Bytes = r.size
	if !c.identify(name, r) {
		rep.Lost = rep.Bytes
		return 0, nil
	}
	c.withoutTail(name, r, &rep)
	r.seq = seq
	if kind == kindBase {
		r.seq = 1
	}
	ended, err := c.batches(r, &rep)
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

// known returns a reader for a file whose header is damaged, with the id from the MANIFEST, since the
// checksums need the id. It returns nil if the MANIFEST does not have it.
func (c *checker) known(name string, f disk.File, kind fileKind, size int64) *reader {
	h := header{kind: kind, instance: c.man.instance}
	if b := c.man.base; b != nil && b.name() == name {
		h.id = b.id
	} else if e := c.man.logAt(name); e != nil {
		h.id = e.id
	}
	if h.id == 0 || size < headerSize {
		return nil
	}
	return &reader{f: f, name: name, header: h, size: size, off: headerSize}
}

// withoutTail leaves out what a start would cut off.
func (c *checker) withoutTail(name string, r *reader, rep *FileReport) {
	end := r.size
	for i, l := range c.start.logs {
		if c.rep.Torn == nil || filepath.Base(l.name) != name {
			continue
		}
		switch {
		case i == c.start.written:
			r.size, end = c.start.tail.off, c.start.tailEnd
		case slices.Contains(c.start.behind, i):
			r.size = headerSize
		}
	}
	rep.Lost = end - r.size
	rep.Zeros = rep.Bytes - end
	c.progress(rep.Bytes - r.size)
}

// identify compares a file with its entry in the MANIFEST, and reports whether it belongs to this directory.
func (c *checker) identify(name string, r *reader) bool {
	if c.man.instance == ([16]byte{}) {
		return true
	}
	id, length := r.id, r.size
	if b := c.man.base; b != nil && b.name() == name {
		id, length = b.id, b.length
	} else if e := c.man.logAt(name); e != nil {
		id = e.id
	}
	switch {
	case r.instance != c.man.instance || r.id != id:
		c.problem(name, 0, "it is not the file that the MANIFEST names: it is from another directory or time")
		return false
	case r.size != length:
		c.problem(name, min(r.size, length), fmt.Sprintf("it has %d bytes, not %d", r.size, length))
	}
	return true
}

// batches reads a file's batches, including those after damage. It reports whether a base has its end.
func (c *checker) batches(r *reader, rep *FileReport) (ended bool, err error) {
	var ch chunk
	c.group = nil
	size := r.size
	for {
		before := r.off
		err := r.read(&ch)
		for i := range ch.pieces {
			p := &ch.pieces[i]
			ended = p.flags&flagEnd != 0
			if err := c.piece(r, rep, p); err != nil {
				return ended, err
			}
		}
		c.progress(r.off - before)
		var bad *badBatch
		switch {
		case err == io.EOF:
			if end := r.size; end < size { // zeros
				rep.Zeros = size - end
				c.progress(rep.Zeros)
			}
			if len(c.group) > 0 {
				c.problem(r.name, c.group[0].off, "a group of batches that is not whole")
				c.dropGroup(rep)
			}
			return ended, nil
		case err == nil:
			continue
		case errors.Is(err, ErrFormat):
			c.problem(r.name, r.off, err.Error())
			rep.Lost += r.size - r.off
			return ended, nil
		case !errors.As(err, &bad):
			return ended, err
		}
		if err := c.damage(r, rep, bad); err != nil {
			return ended, err
		}
	}
}

// damage records a problem at an offset and moves on to the next batch after it.
func (c *checker) damage(r *reader, rep *FileReport, bad *badBatch) error {
	c.dropGroup(rep)
	at, h, found, err := r.after(bad.off)
	if err == nil && found && at == bad.off && !bad.whole {
		at, h, found, err = r.after(bad.off + 1) // its header is valid and its payload is not
	}
	if err != nil {
		return err
	}
	c.problem(r.name, bad.off, bad.reason)
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

// piece counts a batch and passes it to the dump and the repaired copy.
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
	return c.keep(r.kind, p)
}

// keep adds a batch to the repaired copy once its group is complete.
func (c *checker) keep(kind fileKind, p *piece) error {
	if p.flags&flagMore != 0 {
		part := piece{batch: p.batch, off: p.off}
		if c.fix != nil {
			part.payload = bytes.Clone(p.payload)
		}
		c.group = append(c.group, part)
		return nil
	}
	if c.fix == nil {
		c.group = nil
		return nil
	}
	for i := range c.group {
		if err := c.fix.add(kind, &c.group[i]); err != nil {
			return err
		}
	}
	c.group = nil
	return c.fix.add(kind, p)
}

// dropGroup counts the records of an incomplete group as dropped.
func (c *checker) dropGroup(rep *FileReport) {
	for i := range c.group {
		rep.Dropped += int(c.group[i].records)
	}
	c.group = nil
}

// records counts the records of a batch, and dumps them.
func (c *checker) records(rep *FileReport, file string, p *piece) error {
	for b := p.payload; len(b) > 0; {
		r, rest, err := journal.Parse(b)
		if err != nil {
			return fmt.Errorf("after %d bytes of its payload: %w", len(p.payload)-len(b), err)
		}
		b = rest
		if r.Op != journal.Flush && c.o.Known != nil && !c.o.Known(r.Kind) {
			return fmt.Errorf("%w (a record is of kind %d)", ErrFormat, r.Kind)
		}
		switch r.Op {
		case journal.Set:
			if c.o.Sound != nil {
				if err := c.o.Sound(r.Kind, r.State); err != nil {
					return fmt.Errorf("the state of key %q: %w", r.Key, err)
				}
			}
			rep.Sets++
		case journal.Change:
			rep.Changes++
		case journal.Delete:
			rep.Deletes++
		case journal.Flush:
			rep.Flushes++
		}
		if err := c.dump.record(file, p, &r); err != nil {
			return err
		}
	}
	return nil
}
