package disk

import (
	"errors"
	"syscall"
)

// An Appender writes a log's file.
//
// After a sync that makes a file longer, the file system must also write its size and blocks, which takes twice as long as
// the data alone. So an Appender can lengthen the file in steps, with zeros, and write over them:
//
//	┌────────┬───────┬───────┬───────┬─────────────────────────┐
//	│ header │ write │ write │ write │ 0 0 0 0 …               │
//	└────────┴───────┴───────┴───────┴─────────────────────────┘
//	                                 End                       Length
//
// The log ends where the next write would begin, if only zeros follow up to the end of the file. The Appender never cuts the
// zeros off: that would be one more operation that can fail.
//
// Rejected: fallocate. The first write to a block that it has reserved changes the file's metadata, too.
type Appender struct {
	File
	// End is the offset at which the last write ends, and Length that of the file's end.
	End, Length int64
	cramped     bool // there was no room for zeros
}

const (
	// AheadBytes is how many zeros a log writes ahead, in bytes.
	AheadBytes = 256 << 10
	// AheadBelow is the size of a write, in bytes, from which zeros do not pay.
	AheadBelow = 32 << 10
)

// CreateAppender makes a file that begins with some bytes. The file and its name are durable when CreateAppender returns nil;
// a crash leaves all of it or, behind a name that ends in TmpSuffix, a part.
func CreateAppender(fsys FS, name string, head []byte) (*Appender, error) {
	f, err := fsys.Create(name + TmpSuffix)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(head, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = Publish(fsys, name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Appender{File: f, End: int64(len(head)), Length: int64(len(head))}, nil
}

// Append writes bytes behind those before them. If it pays, it first writes zeros ahead, unless zeros is empty. Nothing is
// durable before Sync. After an error, the file may have any part of the bytes, and End is what it was.
func (a *Appender) Append(b, zeros []byte) error {
	end := a.End + int64(len(b))
	if end > a.Length && len(b) < AheadBelow && len(zeros) > 0 && !a.cramped {
		switch _, err := a.WriteAt(zeros, a.Length); {
		case err == nil:
			a.Length += int64(len(zeros))
		case !NoRoom(err):
			return err
		default: // there may be room for the bytes themselves
			a.cramped = true
		}
	}
	if _, err := a.WriteAt(b, a.End); err != nil {
		return err
	}
	a.End, a.Length = end, max(a.Length, end)
	return nil
}

// NoRoom reports whether a write failed because the disk, or its owner's quota, is full.
func NoRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
