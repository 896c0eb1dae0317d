package persistence

import (
	"crypto/rand"
	"fmt"
	"io"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

// repairer copies all batches that can be read to a new directory: those of bases to one base, those of logs
// to one log. It does not interpret the records: they stay the same, in the same order.
type repairer struct {
	dir  *directory // of the copy
	base *baseWriter
	at   *baseEntry
	file disk.File
	log  *logFile
	logs []logEntry
	more bool // the log's last batch does not end its group
}

// newRepairer makes a directory for a copy. A nil entropy is crypto/rand.
func newRepairer(fsys disk.FS, dir string, entropy io.Reader, instance [16]byte) (*repairer, error) {
	d := &directory{fs: fsys, dir: dir, entropy: entropy}
	if d.entropy == nil {
		d.entropy = rand.Reader
	}
	if err := fsys.Mkdir(dir); err != nil {
		return nil, fmt.Errorf("the repaired copy needs a new directory: %w", err)
	}
	if err := fsys.SyncDir(parent(dir)); err != nil {
		return nil, err
	}
	d.man = &manifest{instance: instance}
	if instance == ([16]byte{}) {
		if _, err := io.ReadFull(d.entropy, d.man.instance[:]); err != nil {
			return nil, err
		}
	}
	return &repairer{dir: d}, nil
}

func (f *repairer) close() {
	if f.file != nil {
		f.file.Close()
	}
	if f.log != nil {
		f.log.Close()
	}
}

// add copies a batch.
func (f *repairer) add(kind fileKind, p *piece) error {
	if len(p.payload) == 0 && !f.more { // an empty batch may end a group
		return nil
	}
	// The time since the machine's start means nothing in another file.
	stamp := batch{clock: p.clock, flush: p.flush}
	all, _, err := journal.Split(p.payload, len(p.payload))
	if err != nil {
		return err
	}
	var records journal.Buffer
	records.Reset(batchHeaderSize)
	records.Add(&all)
	if kind == kindBase {
		if err := f.needBase(); err != nil {
			return err
		}
		f.base.stamp = func() batch { return stamp }
		return f.base.batch(&records)
	}
	if f.log == nil {
		log, err := f.dir.newLog()
		if err != nil {
			return err
		}
		log.seq, log.first = 1, 1
		f.log = log
		f.logs = []logEntry{{f.dir.number, log.id, log.seq}}
	}
	f.more = p.flags&flagMore != 0
	return f.log.appendBatch(&records, &stamp, nil, p.flags&flagMore)
}

func (f *repairer) needBase() error {
	if f.base != nil {
		return nil
	}
	id, err := f.dir.randomID()
	if err != nil {
		return err
	}
	f.dir.number++
	f.at = &baseEntry{number: f.dir.number, id: id}
	if f.file, err = f.dir.fs.Create(f.dir.path(f.at.name())); err != nil {
		return err
	}
	f.base = newBaseWriter(f.file, id, nil)
	return f.base.begin(header{instance: f.dir.man.instance})
}

// finish makes the copy durable.
func (f *repairer) finish() error {
	if f.base != nil {
		if err := f.base.finish(); err != nil {
			return err
		}
		f.at.length = f.base.End
	}
	if f.log != nil {
		if err := f.log.Sync(); err != nil {
			return err
		}
	}
	if err := f.dir.fs.SyncDir(f.dir.dir); err != nil {
		return err
	}
	return f.dir.writeManifest(&manifest{instance: f.dir.man.instance, base: f.at, logs: f.logs})
}
