// Package scripts keeps what the runs of scripts share: compiled scripts by their SHA-1, and virtual machines. It stops runs.
package scripts

import (
	"bytes"
	"container/list"
	"strings"
	"sync"
	"sync/atomic"

	"limitdb/known"
	"limitdb/script"
)

const (
	// MaxScripts and maxBytes bound the scripts that EVALSHA knows.
	MaxScripts = 1000
	maxBytes   = 64 << 20
	// maxSource is the longest source that is kept, in bytes: the least that proto-max-bulk-len may be on another node.
	maxSource = 16 << 10
	// maxIdle is the most virtual machines that wait for a script.
	maxIdle = 16
)

// Cache holds the compiled scripts, the virtual machines and the runs. Its zero value is ready to use, and any goroutine may
// call its methods.
type Cache struct {
	mu      sync.Mutex
	bySHA   map[string]*list.Element // of *Script, in order
	order   list.List                // the one used last comes first
	bytes   int
	idle    []*script.VM
	running map[*Run]bool
	seed    uint32
	watch   watch

	flushes, loads atomic.Uint64

	// KeepsSources keeps the sources of scripts, for other nodes. It is set before use.
	KeepsSources bool
}

// Script is a script that EVALSHA knows.
type Script struct {
	*script.Script
	Known  *known.Script // nil: it is of no known limiter
	Source []byte        // nil: it is longer than maxSource, or no other node needs it
}

// size returns about how many bytes the script takes in memory.
func (s *Script) size() int { return s.Size + len(s.Source) }

// Compiled returns the script with that SHA-1, nil if it is not cached.
func (s *Cache) Compiled(sha []byte) *Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.bySHA[string(sha)]
	if at == nil {
		if at = s.bySHA[strings.ToLower(string(sha))]; at == nil {
			return nil
		}
	}
	s.order.MoveToFront(at)
	return at.Value.(*Script)
}

// Compile returns the script with that source.
func (s *Cache) Compile(source []byte) (*Script, error) {
	sha := script.SHA(source)
	if cached := s.Compiled([]byte(sha)); cached != nil {
		return cached, nil
	}
	text, err := script.Compile(source)
	if err != nil {
		return nil, err
	}
	compiled := &Script{Script: text, Known: known.Find(sha)}
	if s.KeepsSources && len(source) <= maxSource {
		compiled.Source = bytes.Clone(source)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bySHA == nil {
		s.bySHA = map[string]*list.Element{}
	}
	if s.bySHA[compiled.SHA] == nil {
		s.bySHA[compiled.SHA] = s.order.PushFront(compiled)
		s.bytes += compiled.size()
	}
	for s.order.Len() > 1 && (s.order.Len() > MaxScripts || s.bytes > maxBytes) {
		last := s.order.Remove(s.order.Back()).(*Script)
		delete(s.bySHA, last.SHA)
		s.bytes -= last.size()
	}
	return compiled, nil
}

// Flush forgets all scripts.
func (s *Cache) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bySHA, s.bytes = nil, 0
	s.order.Init()
	s.flushes.Add(1)
}

// Loaded notes that a client has loaded a script, which was perhaps known already.
func (s *Cache) Loaded() { s.loads.Add(1) }

// Changes returns how many times a client has loaded a script, or all were forgotten.
func (s *Cache) Changes() uint64 { return s.loads.Load() + s.flushes.Load() }

// Flushes returns how many times all scripts were forgotten.
func (s *Cache) Flushes() uint64 { return s.flushes.Load() }

// Sizes returns how many scripts EVALSHA knows, how many bytes they take, and how many run.
func (s *Cache) Sizes() (cached, bytes, running int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bySHA), s.bytes, len(s.running)
}
