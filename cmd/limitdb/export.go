package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/serve"
	"limitdb/internal/english"
)

func exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export DIR DIR2",
		Short: "Make a standalone server's directory from a node's",
		Long: `Reads the data directory of a stopped node, with its snapshot and its whole log, and makes DIR2, from which a
standalone server can start. It changes nothing in DIR.

Export from the node that has the newest log: stop all nodes, run the command for each, and keep the result with
the highest term and, among those, the highest index. The end of that log may have changes whose clients got no
reply.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			x, keys, err := serve.Export(args[0], args[1])
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s has %s, as of term %d, index %d, %s\n", args[1], english.Count(int(keys), "key"), x.Term, x.Index, time.Unix(0, x.Clock).UTC().Format(time.RFC3339))
			return nil
		},
	}
}
