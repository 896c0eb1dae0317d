package main

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/cmd/limitdb/serve"
	"limitdb/internal/clock"
	"limitdb/internal/english"
	"limitdb/persistence"
)

func checkCommand() *cobra.Command {
	var repair string
	var dump, quiet bool
	c := &cobra.Command{
		Use:   "check DIR",
		Short: "Verify a data directory that no server uses",
		Long: `Reads all files of a data directory and verifies every checksum and sequence. It
changes nothing. The exit status is 0 if a server can start from the directory, and 65 if it is
corrupt. A torn tail of the last log is not corruption: the next start cuts it off.

For a node of a cluster, it prints the members, and where the log and the state of the node end.

--repair DIR2 writes everything that can be read to the new directory DIR2; the exit status is 0
if a server can start from DIR2. --dump prints every record as a line of JSON.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if all, err := checked(c.OutOrStdout(), args[0], repair != "" || dump); all || err != nil {
				return err
			}
			o := persistence.CheckOptions{Dir: args[0], Repair: repair, Known: serve.Loads, Boot: clock.SystemBoot()}
			text := c.OutOrStdout()
			if dump {
				out := bufio.NewWriterSize(c.OutOrStdout(), 1<<16)
				defer out.Flush()
				o.Dump = out
				text = c.ErrOrStderr()
			}
			bar := newProgress(c.ErrOrStderr(), "reading", nil, quiet)
			o.Progress = bar.set
			report, err := persistence.Check(o)
			bar.close()
			if err != nil {
				return err
			}
			printReport(text, report)
			if repair != "" {
				fmt.Fprintf(text, "everything that can be read is in %s\n", repair)
				return sound(repair)
			}
			if len(report.Problems) > 0 {
				return cli.WithStatus(fmt.Errorf("%s is corrupt in %s", args[0], english.Count(len(report.Problems), "place")), cli.ExitCorrupt)
			}
			return nil
		},
	}
	c.Flags().StringVar(&repair, "repair", "", "write everything that can be read to this new directory")
	c.Flags().BoolVar(&dump, "dump", false, "print every record as a line of JSON; the report goes to standard error")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress bar")
	return c
}

// sound checks a repaired copy.
func sound(dir string) error {
	report, err := persistence.Check(persistence.CheckOptions{Dir: dir, Known: serve.Loads, Boot: clock.SystemBoot()})
	if err == nil && len(report.Problems) > 0 {
		err = cli.WithStatus(fmt.Errorf("the copy in %s is not sound: %w", dir, report.Problems[0]), cli.ExitCorrupt)
	}
	return err
}

func printReport(w io.Writer, r *persistence.Report) {
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
	for _, p := range r.Problems {
		fmt.Fprintf(w, "corrupt: %s at offset %d: %s\n", p.File, p.Offset, p.Reason)
	}
	if r.Torn != nil {
		fmt.Fprintf(w, "torn: %s at offset %d: %s (a crash cut a write short: the next start cuts it off)\n", r.Torn.File, r.Torn.Offset, r.Torn.Reason)
	}
	if len(r.Problems) == 0 {
		state := "after an unclean stop"
		if r.Clean {
			state = "after a clean stop"
		}
		fmt.Fprintf(w, "all is well, %s\n", state)
	}
}
