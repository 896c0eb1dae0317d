// Package known has the scripts that published limiters send to Redis, by their
// SHA-1, and for most of them a handler in Go, which takes a fraction of the time
// that Lua takes.
//
// A handler has the replies of its script, and leaves the same values and expiries.
// So another version of the library, whose script runs in Lua, continues with the
// same keys. Where anything is unusual, such as an argument that is no plain number
// or a key of another type, the handler changes nothing and returns false, and the
// script itself runs.
//
// The package knows no server: it reads and writes keys through a Store. Each family
// of scripts is a file with its table and its handlers.
package known

import "iter"

// Script is a script of a library.
type Script struct {
	// SHA is the SHA-1 of the script's text, in lower-case hexadecimal.
	SHA string
	// Library is the library that publishes the script.
	Library string
	// Name is what the library calls the script.
	Name string
	// Versions are the versions of the library with this text.
	Versions string

	keys    int             // how many it takes; 0: at least one
	args    int             // the least number
	handler func(*Run) bool // nil: it runs in Lua
}

// Native reports whether the script has a handler in Go.
func (s *Script) Native() bool { return s.handler != nil }

// Run runs the handler. It reports whether that has made the reply. If not, there is
// no handler or the call is unusual: nothing has changed, and the script itself has
// to run.
func (s *Script) Run(r *Run) bool {
	fits := (len(r.Keys) == s.keys || s.keys == 0) && len(r.Keys) > 0 && len(r.Args) >= s.args
	mark := len(r.Out)
	if s.handler == nil || !fits || !s.handler(r) {
		r.Out = r.Out[:mark]
		return false
	}
	return true
}

// All returns all scripts, family by family.
func All() iter.Seq[*Script] {
	return func(yield func(*Script) bool) {
		for _, family := range [...][]Script{
			redisRate[:], ulule[:], throttled[:], flexible[:], fastify[:], rateLimitRedis[:], pythonLimits[:], springGateway[:],
			kong[:], laravel[:], bucket4j[:], redisGCRA[:], redlock[:], redisPy[:], upstash[:], bottleneck[:],
		} {
			for i := range family {
				if !yield(&family[i]) {
					return
				}
			}
		}
	}
}

// Find returns the script with a SHA-1, nil if it is not known.
func Find(sha string) *Script {
	for s := range All() {
		if s.SHA == sha {
			return s
		}
	}
	return nil
}
