package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The limits of include: how deep files may include one another, and how many files may be read in total.
const (
	maxDepth = 16
	maxFiles = 1000
)

// fileParser parses a configuration file and the files that it includes.
type fileParser struct {
	r        *Registry
	readFile func(path string) ([]byte, error)
	remarks  *remarks
	open     []string // the files being read, the configuration file first
	files    int
	all      []assignment
}

// parse parses the configuration file, which errors call file. It returns the assignments of that file and
// those that it includes, in order.
func (p *fileParser) parse(file string, data []byte) ([]assignment, error) {
	if err := p.file(file, data); err != nil {
		return nil, err
	}
	return p.all, nil
}

func (p *fileParser) file(file string, data []byte) error {
	p.open = append(p.open, file)
	defer func() { p.open = p.open[:len(p.open)-1] }()
	for i, l := range splitFile(data) {
		where := onOneLine(file) + ":" + strconv.Itoa(i+1) + ": "
		if l.err != nil {
			return errors.New(where + l.err.Error())
		}
		if len(l.words) == 0 {
			continue
		}
		if err := p.line(i, where, l.words); err != nil {
			return err
		}
	}
	return nil
}

// line parses the words of one line.
func (p *fileParser) line(i int, where string, words []string) error {
	name := words[0]
	if strings.EqualFold(name, "include") {
		return p.include(where+"include", words[1:])
	}
	d := p.r.find(name)
	if d == nil {
		known, err := p.remarks.foreign(where, name, words[1:])
		if known || err != nil {
			return err
		}
		if i := strings.IndexAny(name, "=:"); i >= 0 { // as others write a value, which may be a secret
			return errors.New(where + "unknown directive " + quote(name[:i+1]+"...") + p.r.suggest(name[:i], quote))
		}
		return errors.New(where + "unknown directive " + quote(name) + p.r.suggest(name, quote))
	}
	if len(p.open) > 1 {
		i = -1
	}
	p.all = append(p.all, assignment{d, words[1:], fromFile, where + d.name, i})
	return nil
}

// include reads the files that words name: one path, or a pattern, whose files are read in the order of their
// names. A path is relative to the folder of the including file. A pattern may match nothing.
func (p *fileParser) include(where string, words []string) error {
	path, err := one(words)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	where += " " + quote(path)
	if !filepath.IsAbs(path) && p.open[len(p.open)-1] != "-" {
		path = filepath.Join(filepath.Dir(p.open[len(p.open)-1]), path)
	}
	paths := []string{path}
	if strings.ContainsAny(path, "*?[") {
		if paths, err = filepath.Glob(path); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	for _, path := range paths {
		if err := p.mayRead(path); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		data, err := p.readFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", where, bare(err))
		}
		if err := p.file(path, data); err != nil {
			return err
		}
	}
	return nil
}

// mayRead returns an error if path is already being read, or if there are too many files.
func (p *fileParser) mayRead(path string) error {
	for _, f := range p.open {
		if sameFile(f, path) {
			return fmt.Errorf("%s includes itself", onOneLine(f))
		}
	}
	if p.files++; p.files > maxFiles {
		return fmt.Errorf("more than %d files are included", maxFiles)
	}
	if len(p.open) > maxDepth {
		return fmt.Errorf("files include one another more than %d deep", maxDepth)
	}
	return nil
}

// sameFile reports whether two paths refer to the same file.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
