// Package config is the one registry of directives: the configuration file,
// the environment, the command line and CONFIG GET, SET and REWRITE all read
// and write it.
//
// A directive is declared once, in [New], and its current value is read
// through a typed handle ([Int], [Bytes], [Duration], …) whose Get takes no
// lock, so that any goroutine may ask at any time. Everything else goes by
// text: a directive's canonical text is its value, and each handle can parse
// that text back.
//
// Sources, the stronger first: the command line, the environment
// (LIMITDB_MAXCLIENTS for maxclients), the file, the default.
//
// The package knows nothing of the server. What must happen when a value
// changes is told to it by [Registry.OnChange].
package config
