package disk

import (
	"errors"
	"fmt"
	"io/fs"
)

// A Note is a file with a value that is replaced again and again, and is worthless once the machine has stopped. So no write waits for the
// disk, and a crash of the machine may leave anything.
//
// The file has two records, each in a place of its own. A write goes over the older one, so a process that is killed meanwhile leaves the
// newer one:
//
//	0        256      512
//	┌────────┬────────┐
//	│ record │ record │
//	└────────┴────────┘
//
// The file is opened for each write, which finds out at once that it has been removed. Rejected: a new file for each write, which then takes
// the name of the one before. That costs ten times as much.
type Note struct {
	fs         FS
	path, kind string
	begun      bool  // the file is this Note's
	next       int64 // where the older record is
}

// notePlace is how many bytes a place has. Behind a record is what was there before.
const notePlace = 256

// errLongNote is returned for a value that needs more than a place.
var errLongNote = errors.New("the value is too long for a note")

// NewNote returns a note that replaces the file of that name, if there is one, with its first write.
func NewNote(fsys FS, path, kind string) *Note { return &Note{fs: fsys, path: path, kind: kind} }

// Write replaces the value. After an error, the file has the value from before, or the new one. It may have been removed since the last
// write.
func (n *Note) Write(value any) error {
	b, err := Seal(n.kind, value)
	if err != nil {
		return err
	}
	if len(b) > notePlace {
		return fmt.Errorf("%s: %w", n.path, errLongNote)
	}
	if n.begun {
		if err := n.over(b); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := Write(n.fs, n.path+TmpSuffix, b, false); err != nil {
		return err
	}
	if err := n.fs.Rename(n.path+TmpSuffix, n.path); err != nil {
		return err
	}
	n.begun, n.next = true, notePlace
	return nil
}

// over writes a record over the older one.
func (n *Note) over(b []byte) error {
	f, err := n.fs.Edit(n.path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, n.next)
	if err = errors.Join(err, f.Close()); err == nil {
		n.next = notePlace - n.next
	}
	return err
}

// ReadNote returns the newer of the values in a note's file that are whole. The errors are those of ReadRecord.
func ReadNote[T any](fsys FS, path, kind string, newer func(a, b *T) bool) (*T, error) {
	b, err := ReadFile(fsys, path, 2*notePlace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var found *T
	var damage error
	for first := true; first || len(b) > 0; first = false {
		place := b[:min(notePlace, len(b))]
		b = b[len(place):]
		value := new(T)
		switch err := Unseal(kind, FirstRecord(place), value); {
		case errors.Is(err, ErrDamaged):
			damage = err
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case found == nil || newer(value, found):
			found = value
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s: %w", path, damage)
	}
	return found, nil
}
