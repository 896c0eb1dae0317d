// Package linefile has what the logs of decisions and of changes share: a file of whole lines, in two parts of bounded size, and the JSON strings in
// these lines.
package linefile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unicode/utf8"
)

// A File is a file of lines. When it is full, it is renamed to Path.1, which replaces an earlier one. One goroutine may use it at a time.
type File struct {
	// Name is the directive that names the file, for errors.
	Name, Path string
	// MaxBytes bounds the two files together.
	MaxBytes int64

	file *os.File // nil: it is not open
	size int64
}

// Open opens the file, again if it is open, as after it was moved away.
func (f *File) Open() error {
	file, err := os.OpenFile(f.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s: %s is not a regular file", f.Name, f.Path), err, file.Close())
	}
	err = f.Close()
	f.file, f.size = file, st.Size()
	return err
}

// IsOpen reports whether the file is open.
func (f *File) IsOpen() bool { return f.file != nil }

// Size returns the file's size.
func (f *File) Size() int64 { return f.size }

// Full reports whether the file, with so many bytes that are still to be written, has no room for n more.
func (f *File) Full(pending, n int) bool {
	size := f.size + int64(pending)
	return size > 0 && size+int64(n) > f.MaxBytes/2
}

// Turn begins a new file. If that fails, the old one may still be open, or none.
func (f *File) Turn() error {
	err := f.Close()
	if err == nil {
		err = os.Rename(f.Path, f.Path+".1")
	}
	if err == nil {
		err = f.Open()
	}
	return err
}

// Write appends lines, and returns how many bytes of whole lines are in the file. If it takes only a part, Write cuts off what the file has of
// one of them, and returns the error.
func (f *File) Write(lines []byte) (whole int, err error) {
	n, err := f.file.Write(lines)
	whole = bytes.LastIndexByte(lines[:n], '\n') + 1
	if err != nil {
		err = errors.Join(err, f.file.Truncate(f.size+int64(whole)))
	}
	f.size += int64(whole)
	return whole, err
}

// Close closes the file, if it is open.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}

// AppendString appends bytes as a JSON string. A byte that is not UTF-8 is written \xff, and a backslash \\,
// so that different bytes stay different.
func AppendString(b, text []byte) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(b, `\\x`...)
			b = append(b, hex[text[0]>>4], hex[text[0]&15])
		case r == '\\':
			b = append(b, `\\\\`...)
		case r == '"':
			b = append(b, `\"`...)
		case r < ' ' || r == 0x7f:
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default:
			b = append(b, text[:n]...)
		}
		text = text[n:]
	}
	return append(b, '"')
}
