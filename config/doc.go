// Package config is the one registry of directives. The configuration file, the environment, the command line
// and CONFIG GET, SET and REWRITE all read and write it.
//
// A directive is declared once, in [New]. Code reads its current value through a typed handle ([Int],
// [Bytes], [Duration], …) whose Get takes no lock, so any goroutine may call it at any time. Everything else
// uses text: the value of a directive is its canonical text, which its handle can parse.
//
// Sources, in order of precedence: the command line, the environment (LIMITDB_MAXCLIENTS for maxclients), the
// file, the default.
//
// The package knows nothing of the server. The server registers what must happen when a value changes with
// [Registry.OnChange].
package config
