package main

import (
	"fmt"
	"io"
	"time"

	"limitdb/cmd/limitdb/serve"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/persistence"
)

func storeOptions(dir string) persistence.CheckOptions {
	return persistence.CheckOptions{Dir: dir, Known: serve.Loads, Sound: engine.Sound, Boot: clock.SystemBoot()}
}

// checkStore checks the directory of a standalone server.
func checkStore(o persistence.CheckOptions) (*findings, error) {
	r, err := persistence.Check(o)
	if err != nil {
		return nil, err
	}
	f := &findings{dir: o.Dir, print: func(w io.Writer) { printStore(w, r) }, well: "all is well, after an unclean stop"}
	if r.Clean {
		f.well = "all is well, after a clean stop"
	}
	for _, p := range r.Problems {
		f.problems = append(f.problems, fmt.Sprintf("%s at offset %d: %s", p.File, p.Offset, p.Reason))
	}
	if t := r.Torn; t != nil {
		f.harmless = append(f.harmless, fmt.Sprintf("torn: %s at offset %d: %s (a crash cut a write short: the next start cuts it off)", t.File, t.Offset, t.Reason))
	}
	return f, nil
}

func printStore(w io.Writer, r *persistence.Report) {
	for _, f := range r.Files {
		fmt.Fprintf(w, "%s: bytes %d, batches %d, sets %d, changes %d, deletes %d, flushes %d", f.Name, f.Bytes, f.Batches, f.Sets, f.Changes, f.Deletes, f.Flushes)
		if f.LastClock != 0 {
			fmt.Fprintf(w, ", until %s", time.Unix(0, f.LastClock).UTC().Format(time.RFC3339))
		}
		if f.Lost > 0 {
			fmt.Fprintf(w, ", %d bytes cannot be read", f.Lost)
		}
		if f.Dropped > 0 {
			fmt.Fprintf(w, ", %d records of incomplete steps", f.Dropped)
		}
		if f.Zeros > 0 {
			fmt.Fprintf(w, ", %d zeros at its end", f.Zeros)
		}
		fmt.Fprintln(w)
	}
}
