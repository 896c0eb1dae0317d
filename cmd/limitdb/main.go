// Command limitdb is a rate-limiter server that speaks RESP.
//
//	limitdb [FILE] [--directive value …]   run the server
//	limitdb ping                           check that a running server answers
//	limitdb top                            watch a running server
//	limitdb bench                          put load on a server and measure it
//	limitdb simulate                       replay recorded traffic through limits
//	limitdb cluster                        show the nodes and groups of a cluster, drain a node
//	limitdb rules                          check, explain, test and import files of rules
//	limitdb import                         copy the keys of a Redis server
//	limitdb check DIR                      verify a data directory
//	limitdb export DIR DIR2                make a standalone server's directory from a node's
//	limitdb backup --to DIR                make a backup of a running server
//	limitdb restore BACKUP DIR             make a data directory from a backup
//	limitdb recover DIR                    start a new cluster from one node
//	limitdb version                        print the version
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	_ "time/tzdata" // time zones, for machines and containers without any

	"github.com/spf13/cobra"

	"limitdb/bench/load"
	"limitdb/cmd/limitdb/cli"
	"limitdb/cmd/limitdb/serve"
	"limitdb/internal/suggest"
)

func main() {
	err := run(os.Args[1:])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "limitdb: "+err.Error())
	var code cli.ExitCode
	if errors.As(err, &code) {
		os.Exit(int(code))
	}
	os.Exit(1)
}

// run runs the server or a subcommand. The server's own arguments are directives, which cobra does not know,
// so cobra gets only subcommands.
func run(args []string) error {
	root := commands()
	if len(args) > 0 {
		switch args[0] {
		case "-h", "--help", "help", "completion":
			if err := noTopic(root, args); err != nil {
				return cli.UsageError(err)
			}
			root.SetArgs(args)
			return root.Execute()
		case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
			root = completing()
			root.SetArgs(args)
			return root.Execute()
		case "-v", "--version":
			args = []string{"version"}
		}
		for _, c := range root.Commands() {
			if c.Name() == args[0] {
				root.SetArgs(args)
				return root.Execute()
			}
		}
		if err := mistyped(args[0], root); err != nil {
			return cli.UsageError(err)
		}
	}
	return serve.Run(args, version)
}

// mistyped returns an error if word is no file, and looks more like the name of a subcommand than like one of a file.
func mistyped(word string, root *cobra.Command) error {
	if strings.HasPrefix(word, "-") {
		return nil
	}
	if _, err := os.Stat(word); err == nil {
		return nil
	}
	meant, ok := suggest.Nearest(word, root.Commands(), (*cobra.Command).Name)
	switch {
	case ok:
	case strings.ContainsAny(word, "./"):
		return nil
	default:
		return fmt.Errorf("there is no subcommand and no file named %q", word)
	}
	return fmt.Errorf("unknown subcommand %q: did you mean %q? (there is no file of that name either)", word, meant)
}

// noTopic returns an error if the words after help name no subcommand. The library says that, and shows the usage, but succeeds.
func noTopic(root *cobra.Command, args []string) error {
	if args[0] != "help" {
		return nil
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	at := root
	for _, word := range args[1:] {
		if strings.HasPrefix(word, "-") {
			return nil
		}
		subs := at.Commands()
		i := slices.IndexFunc(subs, func(c *cobra.Command) bool { return c.Name() == word })
		if i < 0 {
			if meant, ok := suggest.Nearest(word, subs, (*cobra.Command).Name); ok {
				return fmt.Errorf("unknown subcommand %q: did you mean %q?", word, meant)
			}
			return fmt.Errorf("%s has no subcommand %q: see %s --help", at.CommandPath(), word, at.CommandPath())
		}
		at = subs[i]
	}
	return nil
}

func commands() *cobra.Command {
	root := &cobra.Command{
		Use:   "limitdb [FILE] [--directive value …]",
		Short: "A rate-limiter server that speaks RESP",
		Long: `limitdb answers "may this caller go ahead?" to any Redis client.

Without a subcommand it runs the server. FILE is a configuration file (- is standard
input); every directive can also be given as --directive value or as LIMITDB_DIRECTIVE
in the environment. --check-config reads the configuration, reports whether it is
valid, and exits. docs/configuration.md lists the directives.`,
		Example:       "  limitdb\n  limitdb /etc/limitdb/limitdb.conf --port 7000 --maxclients 20000\n  limitdb --check-config limitdb.conf",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(_ *cobra.Command, args []string) error { return serve.Run(args, version) },

		DisableFlagsInUseLine: true,
	}
	root.Flags().Bool("check-config", false, "report whether the configuration is valid, and exit")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError(err) })
	root.AddCommand(pingCommand(), topCommand(), load.Command(), simulateCommand(), rulesCommand(), clusterCommand(), checkCommand(), exportCommand(), backupCommand(), restoreCommand(), importCommand(), recoverCommand(), versionCommand())
	sayUsage(root)
	return root
}

// sayUsage makes each subcommand answer a wrong number of arguments, or an option that it needs and did not get, with its usage.
func sayUsage(c *cobra.Command) {
	for _, sub := range c.Commands() {
		sayUsage(sub)
	}
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		what := "wrong number of arguments"
		if check(c, args) == nil {
			if c.ValidateRequiredFlags() == nil {
				return nil
			}
			what = "an option is missing"
		}
		return cli.UsageError(fmt.Errorf("%s: the usage is %s", what, c.UseLine()))
	}
}
