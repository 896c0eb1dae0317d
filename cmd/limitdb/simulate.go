package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/limit"
	"limitdb/simulate"
)

// toldLines is how many bad lines of a trace are printed; the others are only counted.
const toldLines = 5

// simulation is the parsed command line of limitdb simulate.
type simulation struct {
	limits, algorithms []string
	sweep              string
	format, unit, key  string
	trace              simulate.TraceOptions
	strict, json       bool
	quiet              bool
	html               string
	holdTTL, onExpire  string
	rules, namespace   string
	fields             []string
}

func simulateCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate (--limit LIMIT … | --sweep RATES | --rules FILE) [flags] [FILE …]",
		Short: "Replay recorded traffic through limits and show whom they deny",
		Long: `Replays the requests of a trace, on a virtual clock, through the functions that the server
runs, and reports for each limit how many would have been denied and for how long.

FILE is CSV (time,key[,cost], or columns named by a first line), JSON lines (members
time, key, cost) or an access log of nginx or Apache; it may be compressed with gzip. Name
several files oldest first; - is standard input. Times are Unix time (in s, ms, µs or
ns, by their size) or RFC 3339. docs/simulate.md has the rest.`,
		Example: "  limitdb simulate --limit \"gcra 100/m burst 20\" --limit \"sliding 100/m\" access.log\n" +
			"  limitdb simulate --sweep 50,100,200/m --algorithm gcra,fixed --html page.html access.log.2.gz access.log.1\n" +
			"  limitdb simulate --limit \"gcra 5/m\" --key \"addr path\" --json - <access.log",
		RunE: func(cmd *cobra.Command, args []string) error {
			s.trace.Key = nil
			if cmd.Flags().Changed("key") {
				s.trace.Key = strings.Fields(s.key)
			}
			return s.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringArrayVarP(&s.limits, "limit", "l", nil, "a limit, spelled as for RL.TAKE; can be repeated")
	f.StringVar(&s.rules, "rules", "", "replay through the rules of this `file` instead of limits")
	f.StringVar(&s.namespace, "namespace", "", "the namespace of --rules, if the file has several")
	f.StringArrayVar(&s.fields, "field", nil, "with --rules, a field with another name in the trace: user=remote_user; can be repeated")
	f.StringVar(&s.sweep, "sweep", "", "several rates, such as 50,100,200/m")
	f.StringSliceVar(&s.algorithms, "algorithm", nil, "the algorithms of --sweep, with options if needed (default all)")
	f.StringVar(&s.format, "format", "auto", "auto, csv, json or access")
	f.StringVarP(&s.key, "key", "k", "", "the fields that identify a caller: columns, members, or of an access log\n"+
		strings.Join(simulate.AccessFields(), " ")+"\n(default key, the second column, or addr; \"\" is one caller for all)")
	f.BoolVar(&s.trace.Anonymous, "anonymous", false, "take - and an empty field for a caller, and with --rules for a value")
	f.StringVar(&s.trace.Time, "time", "", "the field with the time (default the first column, or time, timestamp, ts, @timestamp)")
	f.StringVar(&s.trace.Cost, "cost", "", "the field with the cost (default the third column, or cost)")
	f.StringVar(&s.trace.Actual, "actual", "", "the field with the actual cost; the cost above is then an estimate, held until the\nactual one is known")
	f.StringVar(&s.trace.Took, "took", "", "with --actual, the field with the time until it was known, in ms or with a unit")
	f.StringVar(&s.holdTTL, "hold-ttl", "1h", "with --actual, for how long an estimate is held")
	f.StringVar(&s.onExpire, "on-expire", "keep", "with --actual, whether an estimate stays taken when that is over, or goes back: keep or\nreturn")
	f.StringVar(&s.unit, "unit", "auto", "the unit of times that are numbers: auto, s, ms, us or ns")
	f.BoolVar(&s.strict, "strict", false, "end at the first line that is not a request")
	f.BoolVar(&s.json, "json", false, "print the result as JSON")
	f.StringVar(&s.html, "html", "", "also write a page to this `file`, with plots, or with --rules tables to sort")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "show no progress bar and no bad lines")
	return cmd
}

func (s *simulation) run(cmd *cobra.Command, files []string) (err error) {
	var replay *simulate.Replay
	if s.rules == "" {
		if replay, err = s.replay(); err != nil {
			return cli.UsageError(err)
		}
	}
	if err = s.hold(replay); err != nil {
		return cli.UsageError(err)
	}
	if s.trace.Format, err = simulate.ParseFormat(s.format); err != nil {
		return cli.UsageError(err)
	}
	if s.trace.Unit, err = parseUnit(s.unit); err != nil {
		return cli.UsageError(err)
	}
	if len(files) == 0 {
		return cli.UsageError(errors.New("name a file to replay, or - for standard input"))
	}
	if s.rules != "" {
		return s.runRules(cmd, files)
	}
	errOut := cmd.ErrOrStderr()
	bar := newProgress(errOut, "replaying", files, s.quiet)
	defer bar.close()
	told := 0
	var first error
	for _, name := range files {
		err := s.file(cmd.InOrStdin(), name, replay, bar, func(wrong *simulate.LineError) {
			err := fmt.Errorf("%s: %w", name, wrong)
			if first == nil {
				first = err
			}
			if told++; s.quiet || told > toldLines {
				return
			}
			bar.close()
			fmt.Fprintln(errOut, "limitdb simulate: "+err.Error())
			if told == toldLines {
				fmt.Fprintln(errOut, "limitdb simulate: further lines that are not requests are only counted")
			}
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	bar.close()
	replay.Settle()
	result := replay.Result()
	if result.Requests == 0 && first == nil {
		return fmt.Errorf("no request of %s has a caller: the fields of the key are empty or \"-\" (--anonymous makes that a caller)", about(files))
	}
	if result.Requests == 0 {
		return fmt.Errorf("%s has no request: %w", about(files), first)
	}
	return s.write(cmd.OutOrStdout(), result, files)
}

// replay makes a replay against all requested limits.
func (s *simulation) replay() (*simulate.Replay, error) {
	var limits []limit.Limit
	for _, text := range s.limits {
		l, err := limit.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--limit %q: %w", text, err)
		}
		limits = append(limits, l)
	}
	if s.sweep != "" {
		swept, err := simulate.Sweep(s.sweep, s.algorithms)
		if err != nil {
			return nil, fmt.Errorf("--sweep: %w", err)
		}
		limits = append(limits, swept...)
	} else if len(s.algorithms) > 0 {
		return nil, errors.New("--algorithm works only with --sweep")
	}
	if len(limits) == 0 {
		return nil, errors.New("give a --limit, such as --limit \"gcra 100/m burst 20\", or a --sweep")
	}
	return simulate.NewReplay(limits)
}

// hold has the replay hold estimates, if the trace has actual costs; runRules does so for rules.
func (s *simulation) hold(replay *simulate.Replay) error {
	switch {
	case (s.trace.Actual == "") != (s.trace.Took == ""):
		return errors.New("--actual, what a request has cost, and --took, when that was known, go together")
	case s.trace.Actual == "" || replay == nil:
		return nil
	}
	o, err := s.holding()
	if err != nil {
		return err
	}
	return replay.Hold(o)
}

// holding returns how estimates are held.
func (s *simulation) holding() (o simulate.HoldOptions, err error) {
	if o.TTL, err = limit.ParseTime([]byte(s.holdTTL)); err != nil {
		return o, fmt.Errorf("--hold-ttl: %w", err)
	}
	if o.Returns = strings.EqualFold(s.onExpire, "return"); !o.Returns && !strings.EqualFold(s.onExpire, "keep") {
		return o, fmt.Errorf("--on-expire %q: it is keep or return", s.onExpire)
	}
	return o, nil
}

// parseUnit parses the unit of times that are numbers.
func parseUnit(name string) (simulate.Unit, error) {
	unit, ok := map[string]simulate.Unit{
		"auto": simulate.AutoUnit, "s": simulate.Seconds, "ms": simulate.Milliseconds,
		"us": simulate.Microseconds, "µs": simulate.Microseconds, "ns": simulate.Nanoseconds,
	}[name]
	if !ok {
		return 0, fmt.Errorf("unknown unit %q: use auto, s, ms, us or ns", name)
	}
	return unit, nil
}

// openTrace opens a file to replay; "-" is stdin. The caller adds the name of the file to the error.
func openTrace(stdin io.Reader, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, cmp.Or(errors.Unwrap(err), err)
	}
	return f, nil
}

// file replays one file.
func (s *simulation) file(stdin io.Reader, name string, replay *simulate.Replay, bar *progress, bad func(*simulate.LineError)) error {
	in, err := openTrace(stdin, name)
	if err != nil {
		return err
	}
	defer in.Close()
	trace, err := simulate.NewTrace(bar.reader(in), s.trace)
	if err != nil {
		return err
	}
	return simulate.Run(trace, replay, simulate.RunOptions{Strict: s.strict, Bad: bad})
}

// result is what a replay has shown, of limits or of rules.
type result interface {
	WriteTable(io.Writer) error
	WriteJSON(io.Writer) error
	WriteHTML(io.Writer, simulate.Page) error
}

// write prints the result, and writes the page if one was requested.
func (s *simulation) write(out io.Writer, result result, files []string) error {
	write := result.WriteTable
	if s.json {
		write = result.WriteJSON
	}
	if err := write(out); err != nil || s.html == "" {
		return err
	}
	f, err := os.Create(s.html)
	if err != nil {
		return err
	}
	if err := result.WriteHTML(f, simulate.Page{About: about(files), Command: commandLine(os.Args[1:])}); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// commandLine returns limitdb and its arguments, quoted for a shell.
func commandLine(args []string) string {
	words := []string{"limitdb"}
	for _, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./,:=@%+", r)
		}) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// about describes the replayed trace.
func about(files []string) string {
	names := make([]string, len(files))
	for i, name := range files {
		if names[i] = name; name == "-" {
			names[i] = "standard input"
		}
	}
	return strings.Join(names, ", ")
}
