package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"limitdb/cmd/limitdb/cli"
	"limitdb/rules"
)

// envoyRules are the files of Envoy's rate limit service in envoy-rules-dir.
type envoyRules struct {
	dir  string
	last atomic.Pointer[dirStamp] // of the files that were read last
}

// dirStamp distinguishes one state of a directory's files from another, without reading them.
type dirStamp struct {
	names  []string
	stamps []*stamp
	err    error
}

// isEnvoyFile reports whether a file is read. Kubernetes and editors have files that begin with a dot.
func isEnvoyFile(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// look looks at the files, in the order of their names.
func (e *envoyRules) look() *dirStamp {
	entries, err := os.ReadDir(e.dir)
	s := &dirStamp{err: err}
	for _, entry := range entries {
		if name := entry.Name(); isEnvoyFile(name) {
			s.names, s.stamps = append(s.names, name), append(s.stamps, stampOf(filepath.Join(e.dir, name)))
		}
	}
	return s
}

func (a *dirStamp) same(b *dirStamp) bool {
	return (a.err == nil) == (b.err == nil) && slices.Equal(a.names, b.names) && slices.EqualFunc(a.stamps, b.stamps, (*stamp).same)
}

// changed reports whether the files are others than were read last.
func (e *envoyRules) changed() bool { return !e.look().same(e.last.Load()) }

// readTries is how often files are read that change meanwhile.
const readTries = 3

// errRestless refuses files of which some may be from before a change and some from after it.
var errRestless = errors.New("the files change while they are read: the server reads them again when they are quiet")

// read reads the files, all in one state of the directory.
func (e *envoyRules) read() ([]rules.File, error) {
	for range readTries {
		now := e.look()
		e.last.Store(now)
		files, err := e.readAll(now)
		if e.look().same(now) {
			return files, err
		}
	}
	return nil, errRestless
}

// readAll reads the files of a look.
func (e *envoyRules) readAll(of *dirStamp) (files []rules.File, err error) {
	if of.err != nil {
		return nil, of.err
	}
	if len(of.names) > rules.MaxFiles {
		return nil, fmt.Errorf("there are %d files: at most %d are read", len(of.names), rules.MaxFiles)
	}
	left := int64(rules.MaxTexts)
	for i, name := range of.names {
		path := filepath.Join(e.dir, name)
		if info := of.stamps[i].info; info != nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", path)
		}
		text, err := cli.ReadBounded(path, min(rules.MaxText, left))
		if err != nil {
			return nil, err
		}
		files, left = append(files, rules.File{Name: name, Text: text}), left-int64(len(text))
		if left < 0 {
			return nil, fmt.Errorf("the files have more than %d bytes", rules.MaxTexts)
		}
	}
	return files, nil
}

// check reads the files, and returns what is wrong with them.
func (e *envoyRules) check() error {
	files, err := e.read()
	if err == nil {
		_, err = rules.ParseDomains(files, nil)
	}
	if err != nil {
		return fmt.Errorf("envoy-rules-dir %s: %w", e.dir, err)
	}
	return nil
}
