//go:build testclock

package clock

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// skew makes the machine's clocks wrong, as the file says that TESTCLOCK_FILE names: two numbers, by how many ns the
// wall clock is ahead, and by how many millionths the monotonic clock is fast. Tests change it at any time. Only the tests of
// e2e build this.
type skew struct{ *skewed }

type skewed struct {
	mu         sync.Mutex
	offset     int64
	ppm        int64
	from, made int64 // the monotonic time at which ppm was set, real and made
	real       int64 // the newest
}

func newSkew() skew {
	s := skew{&skewed{}}
	path := os.Getenv("TESTCLOCK_FILE")
	if path == "" {
		return s
	}
	s.read(path)
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			s.read(path)
		}
	}()
	return s
}

func (s *skewed) read(path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	var offset, ppm int64
	if _, err := fmt.Sscan(string(b), &offset, &ppm); err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = offset
	if ppm != s.ppm {
		s.made = s.at(s.real)
		s.from, s.ppm = s.real, ppm
	}
}

func (s *skewed) at(real int64) int64 {
	past := real - s.from
	return s.made + past + past*s.ppm/1_000_000
}

func (s *skewed) wall(t int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t + s.offset
}

func (s *skewed) elapsed(t int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.real = max(s.real, t)
	return s.at(s.real)
}
