package main

import (
	"strings"

	"github.com/spf13/cobra"

	"limitdb/config"
)

// completing returns the commands as shells complete them: with every directive as a flag of the server, and of the
// subcommands that read its configuration. It is for completion alone, since directives are parsed by package config.
func completing() *cobra.Command {
	root := commands()
	root.Args = cobra.ArbitraryArgs // the configuration file
	root.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	addDirectives(root)
	completeAll(root)
	return root
}

// completeAll adds directives to all subcommands that take them.
func completeAll(parent *cobra.Command) {
	for _, c := range parent.Commands() {
		completeAll(c)
		if c.DisableFlagParsing {
			c.DisableFlagParsing = false
			addDirectives(c)
		}
	}
}

// addDirectives adds a flag for each directive that a command does not have yet, with what the value may be.
func addDirectives(c *cobra.Command) {
	registry, _ := config.New()
	for _, e := range registry.Reference() {
		if c.Flags().Lookup(e.Name) != nil {
			continue
		}
		text, _, _ := strings.Cut(e.Doc, ". ")
		c.Flags().String(e.Name, "", strings.TrimSuffix(text, "."))
		values, files := e.Values, cobra.ShellCompDirectiveNoFileComp
		if e.Range == "" { // any text, which may be a path
			files = cobra.ShellCompDirectiveDefault
		}
		// The error is that the flag is not there, or has values.
		_ = c.RegisterFlagCompletionFunc(e.Name, cobra.FixedCompletions(values, files))
	}
}
