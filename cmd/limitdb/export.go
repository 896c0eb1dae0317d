package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/serve"
	"limitdb/internal/english"
)

func exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export DIR... DIR2",
		Short: "Make a standalone server's directory from those of nodes",
		Long: `Reads the data directories of stopped nodes of a cluster, with their snapshots and whole logs, and makes DIR2, from which a
standalone server can start, or a new cluster with any number of groups. DIR2 appears only when it is whole. The command changes
nothing in the others.

Stop all nodes, and give the directories of all that are left: the command takes the newest log, of several groups that of each
group. If the directories are on different machines, run the command for each, and keep the result with the highest term and, among
those, the highest index; of several groups, copy them to one machine instead. The end of a log may have changes whose clients got
no reply.`,
		Example: "  limitdb export /srv/n1 /srv/n2 /srv/n3 data\n  limitdb --dir data",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			to := args[len(args)-1]
			from, at, keys, err := serve.Export(to, args[:len(args)-1]...)
			if err != nil {
				return err
			}
			tellExport(c.OutOrStdout(), to, from, at, keys)
			return nil
		},
	}
}

// tellExport says what an export has made, and from what.
func tellExport(out io.Writer, to string, from []serve.Exported, at, keys int64) {
	have := fmt.Sprintf("%s has %s, as of ", to, english.Count(int(keys), "key"))
	if len(from) == 1 {
		fmt.Fprintf(out, "%sterm %d, index %d, %s\n", have, from[0].Term, from[0].Index, timeOf(at))
		return
	}
	for _, x := range from {
		fmt.Fprintf(out, "group %d: %s, as of term %d, index %d, %s\n", x.Group, x.Dir, x.Term, x.Index, timeOf(x.Clock))
	}
	fmt.Fprintf(out, "%s%s\n", have, timeOf(at))
}

func timeOf(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339) }
