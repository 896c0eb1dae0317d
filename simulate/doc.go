// Package simulate replays recorded traffic through limits, on a virtual clock, and reports what they would
// have done: who would have been denied and for how long, and how much any caller would have been admitted at
// most.
//
// A [Trace] reads requests from a file: CSV, JSON lines or a web server's access log. A [Replay] decides each
// of them with the functions of package limit that the server uses. A [Result] can be written as a table, as
// JSON, or as a single HTML page that loads nothing else.
//
//	r, err := simulate.NewReplay(limits)
//	t, err := simulate.NewTrace("access.log", file, simulate.TraceOptions{})
//	err = simulate.Run(t, r, simulate.RunOptions{})
//	err = r.Result().WriteTable(os.Stdout)
//
// The trace is replayed unchanged: a caller that was denied does not come back later than it did, and one
// that was admitted does not ask for less.
//
// The package does not read a clock. Its memory grows with the number of callers, and with what each was
// admitted within the last period, but not with the number of lines.
package simulate
