// Package limitdb is the root of a rate-limiter server that speaks RESP. It
// holds no code: the server is cmd/limitdb, and ARCHITECTURE.md tells what is where.
package limitdb
