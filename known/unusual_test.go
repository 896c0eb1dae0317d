package known_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"limitdb/known"
	"limitdb/known/knowntest"
	"limitdb/value"
)

// odd is a Store in which one key holds what no script expects.
type odd struct {
	keys
	key     string
	limit   bool // the key cannot be read; else it holds a set
	read    bool // the key was read
	written bool // any key was written
}

func (o *odd) Get(key []byte) (known.Value, bool) {
	if string(key) != o.key {
		return o.keys.Get(key)
	}
	o.read = true
	return known.Value{Type: value.Set}, !o.limit
}

func (o *odd) Put(key []byte, v *known.Value, splices []value.Splice) {
	o.written = true
	o.keys.Put(key, v, splices)
}

// TestUnusualCalls checks that a handler leaves a call to the script, and has changed nothing, if a key that it reads
// holds a limit or a set, if an argument that should be a number is none, or if there are too few or too many words.
func TestUnusualCalls(t *testing.T) {
	const numbers = "acelmpsuUwWM"
	texts := map[string]int{ // arguments that scripts do not read as numbers
		"29cc07bd": 0, "1c5d436d": 0, // they compare times as texts
		"a37c0266": 0, "cf015257": 0, // they read it only if there is a window
		"76a566c5": 2, // it takes the server's time
		"c26b1270": 0, // it never begins a window
	}
	for _, spec := range knowntest.Specs() {
		s := known.Find(spec.SHA)
		text, ok := texts[spec.SHA[:8]]
		if !ok {
			text = -1
		}
		anyType := s.Name == "add" || strings.HasPrefix(s.Name, "SET_NX") // these ask only whether the key is there
		t.Run(spec.SHA[:8], func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				now := time.Unix(1_800_000_000, 0)
				names := spec.KeyNames(t, "k")
				args := spec.Calls(t, names, now)[0].Args
				run := func(names, args []string, o *odd) (took bool) {
					r := &known.Run{Now: now.UnixNano(), Store: o, Keys: words(names), Args: words(args)}
					if took = s.Run(r); !took && (o.written || len(r.Out) > 0) {
						t.Errorf("%q: a change or a reply, although the script is to run", args)
					}
					return took
				}
				for _, key := range names {
					if o := (&odd{keys: keys{}, key: key, limit: true}); run(names, args, o) && o.read {
						t.Errorf("%q: takes the limit at %s for a value", args, key)
					}
					if o := (&odd{keys: keys{}, key: key}); run(names, args, o) && o.read && !anyType {
						t.Errorf("%q: takes the set at %s for a value of its own", args, key)
					}
				}
				if run(nil, args, &odd{keys: keys{}}) || spec.Keys > 0 && run(append(names, "more"), args, &odd{keys: keys{}}) {
					t.Errorf("%q: takes another number of keys", args)
				}
				for n := range args {
					run(names, args[:n], &odd{keys: keys{}})
				}
				for i := range args {
					if !strings.Contains(numbers, spec.Args[i:i+1]) || i == text {
						continue
					}
					for _, not := range []string{"x", "1e3", "0x10"} {
						wrong := slices.Clone(args)
						if wrong[i] = not; run(names, wrong, &odd{keys: keys{}}) {
							t.Errorf("%q: takes argument %d for a number", wrong, i)
						}
					}
				}
			})
		})
	}
}

func words(texts []string) (all [][]byte) {
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}
