// Package limitdb is the root of a rate-limiter server that speaks RESP. It has no code: the server is
// cmd/limitdb, and ARCHITECTURE.md says where everything is.
package limitdb
