// Package simulate replays recorded traffic through limits, on a virtual clock,
// and tells what they would have done: who would have been denied, for how long,
// and how many requests would have come through at the most.
//
// A [Trace] reads requests from a file: CSV, JSON lines or a web server's access
// log. A [Replay] decides each of them with the very functions of package limit
// that the server runs. A [Result] is written as a table, as JSON, or as one HTML
// page that needs nothing else.
//
//	r, err := simulate.NewReplay(limits)
//	t, err := simulate.NewTrace("access.log", file, simulate.TraceOptions{})
//	err = simulate.Run(t, r, simulate.RunOptions{})
//	err = r.Result().WriteTable(os.Stdout)
//
// The trace is played as it is: a caller that was denied does not come back
// later than it did, and one that was let through does not ask less.
//
// Nothing here reads a clock. Memory grows with the callers, and with what each
// was admitted within the last period, never with the lines.
package simulate
