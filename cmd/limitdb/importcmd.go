package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// The variables with the passwords of the two servers.
const (
	fromPassword = "LIMITDB_FROM_PASSWORD"
	toPassword   = "LIMITDB_TO_PASSWORD"
)

// errImportLacks is returned if keys are not there in the end.
var errImportLacks = errors.New("keys of the source are not there")

func importCommand() *cobra.Command {
	var from, to, match string
	var files remoteFiles
	var replace bool
	c := &cobra.Command{
		Use:   "import --from redis://host:port/db --to redis://host:port",
		Short: "Copy the keys of a Redis server to a running limitdb server",
		Long: `Copies strings and counters, lists, sets, hashes, sorted sets and the keys of redis-cell, with the time that they
have left, to a running limitdb server. It skips keys of other types, and counts them.

Keys that the target has stay as they are, so you can stop the command and run it again. Run it before you switch
clients over: requests that a key counts after it was copied are lost. For TLS, write rediss://. The passwords come from
` + fromPassword + ` and ` + toPassword + `, or the command asks for them.`,
		Args:    cobra.NoArgs,
		Example: "  limitdb import --from redis://old:6379/0 --to redis://localhost:6379\n  limitdb import --from rediss://user@old --to redis://localhost:6380 --match 'limiter:*'",
		RunE: func(c *cobra.Command, _ []string) error {
			source, err := openRemote(from, fromPassword, files)
			if err != nil {
				return err
			}
			defer source.close()
			target, err := openRemote(to, toPassword, files)
			if err != nil {
				return err
			}
			defer target.close()
			m := &keyImport{from: source, to: target, match: match, replace: replace, batch: importBatch}
			m.progress = everySecond(func(read, total int64) {
				fmt.Fprintf(os.Stderr, "%d of %d keys\n", read, total)
			})
			var have, lack int64
			if err = m.run(); err == nil {
				have, lack, err = m.verify()
			}
			if tell := m.report(c.OutOrStdout()); err != nil || tell != nil {
				return errors.Join(err, tell)
			}
			fmt.Fprintf(c.OutOrStdout(), "%d keys of the source are there", have)
			if lack > 0 {
				fmt.Fprintf(c.OutOrStdout(), ", and %d are not\n", lack)
				return errImportLacks
			}
			fmt.Fprintln(c.OutOrStdout())
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "the Redis server to read")
	f.StringVar(&to, "to", "", "the limitdb server to write to")
	f.StringVar(&match, "match", "*", "only keys that match this pattern, as in SCAN")
	f.StringVar(&files.ca, "cacert", "", "a file with certificates to trust, in PEM")
	f.StringVar(&files.cert, "cert", "", "a file with a certificate of your own, in PEM, for servers that ask for one")
	f.StringVar(&files.key, "key", "", "the file with its key")
	f.BoolVar(&replace, "replace", false, "replace keys that the target has, unless they hold a limit")
	_ = c.MarkFlagRequired("from")
	_ = c.MarkFlagRequired("to")
	c.MarkFlagsRequiredTogether("cert", "key")
	return c
}
