package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/cmd/limitdb/serve"
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
			dir, text := args[0], c.OutOrStdout()
			if replicas := serve.Replicas(dir); len(replicas) > 0 {
				if repair != "" || dump {
					return errors.New("--repair and --dump are for a standalone server: a node gets its state from the others")
				}
				var err error
				for _, raft := range replicas {
					if len(replicas) > 1 {
						fmt.Fprintf(text, "%s:\n", raft)
					}
					f, cerr := checkNode(raft)
					if cerr == nil {
						cerr = f.tell(text)
					}
					err = cmp.Or(err, cerr)
				}
				if err != nil || !persistence.HasData(dir) {
					return err
				}
			}
			o := storeOptions(dir)
			o.Repair = repair
			if dump {
				out := bufio.NewWriterSize(c.OutOrStdout(), 1<<16)
				defer out.Flush()
				o.Dump = out
				text = c.ErrOrStderr()
			}
			bar := newProgress(c.ErrOrStderr(), "reading", nil, quiet)
			o.Progress = bar.set
			f, err := checkStore(o)
			bar.close()
			if err != nil {
				return err
			}
			err = f.tell(text)
			if repair == "" {
				return err
			}
			fmt.Fprintf(text, "everything that can be read is in %s\n", repair)
			f, err = checkStore(storeOptions(repair))
			if err == nil && len(f.problems) > 0 {
				err = cli.WithStatus(fmt.Errorf("the copy in %s is not sound: %s", repair, f.problems[0]), cli.ExitCorrupt)
			}
			return err
		},
	}
	c.Flags().StringVar(&repair, "repair", "", "write everything that can be read to this new directory")
	c.Flags().BoolVar(&dump, "dump", false, "print every record as a line of JSON; the report goes to standard error")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress bar")
	return c
}

// findings are what a checker has found in a directory. There are two: checkStore and checkNode.
type findings struct {
	dir      string
	print    func(w io.Writer) // says what is there
	problems []string          // keep a server from starting
	harmless []string          // a start does without it, or heals it
	well     string            // to say if there are no problems
	advice   string            // to add to the error
}

// list prints the findings.
func (f *findings) list(w io.Writer) {
	f.print(w)
	for _, h := range f.harmless {
		fmt.Fprintln(w, h)
	}
	for _, p := range f.problems {
		fmt.Fprintf(w, "corrupt: %s\n", p)
	}
}

// tell prints the findings and a verdict, and returns an error if a server cannot start from the directory.
func (f *findings) tell(w io.Writer) error {
	f.list(w)
	if len(f.problems) > 0 {
		return cli.WithStatus(fmt.Errorf("%s is corrupt in %s%s", f.dir, english.Count(len(f.problems), "place"), f.advice), cli.ExitCorrupt)
	}
	fmt.Fprintln(w, f.well)
	return nil
}
