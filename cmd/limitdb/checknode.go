package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/serve"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/replication"
)

// checkNode checks the directory of a node of a cluster.
func checkNode(dir string) (*findings, error) {
	r, err := replication.Check(replication.CheckOptions{
		Dir: dir, Known: serve.Loads, Sound: engine.Sound, Clock: replication.Clock{Wall: clock.NewReal().Wall, Boot: clock.SystemBoot()},
	})
	if err != nil {
		return nil, err
	}
	return ofNode(dir, r), nil
}

func ofNode(dir string, r *replication.Report) *findings {
	f := &findings{dir: dir, print: func(w io.Writer) { printNode(w, r) }, problems: r.Problems, well: "all is well", advice: ": docs/replication.md says what to do"}
	for _, h := range r.Ignored {
		f.harmless = append(f.harmless, fmt.Sprintf("damaged: %s (the node starts without it: while no node ran, the time of limits has stood still)", h))
		f.well = "all else is well"
	}
	return f
}

func printNode(w io.Writer, r *replication.Report) {
	cluster := "of no cluster yet"
	if r.Cluster != "" {
		cluster = "of the cluster " + r.Cluster
	}
	fmt.Fprintf(w, "node %s, incarnation %s, %s\n", r.ID, r.Incarnation, cluster)
	for _, s := range r.Snapshots {
		fmt.Fprintf(w, "snapshot %s: up to entry %d of term %d, bytes %d, records %d\n", s.Name, s.Index, s.Term, s.Bytes, s.Records)
	}
	fmt.Fprintf(w, "log: entries %d to %d, term %d, epochs %d, batches %d, records %d\n", r.First, r.Last, r.Term, r.Epochs, r.Batches, r.Records)
	for _, m := range r.Members {
		vote := "voter"
		if !m.Voter {
			vote = "nonvoter"
		}
		fmt.Fprintf(w, "member %s: %s, %s\n", m.ID, m.Address, vote)
	}
	if r.Clock != 0 {
		fmt.Fprintf(w, "state: epoch %s, batch %d, of the leader at %s, until %s\n", r.Epoch, r.Sequence, r.Leader, time.Unix(0, r.Clock).UTC().Format(time.RFC3339))
	}
}

func recoverCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "recover DIR",
		Short: "Start a new cluster from one node, after the majority is lost for good",
		Long: `Makes the node in a data directory the only member of a new cluster, which begins with all that
this node has. Decisions that only the lost nodes had are gone. Do this on one node, the one whose
log ends last (limitdb check says where it ends), then start it, and add new nodes.

The nodes of the old cluster are refused from then on: give them empty directories.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := serve.Recover(args[0])
			if r != nil {
				ofNode(args[0], r).list(c.OutOrStdout())
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "node %s is a cluster of its own now: start it, and add the others with empty directories\n", r.ID)
			return nil
		},
	}
}
