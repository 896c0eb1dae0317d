// Package e2e holds the tests that start the real binary and drive it with
// real clients: redis-cli, redis-benchmark, client libraries of eight
// languages, redis_exporter, and hostile peers. It has no code of its own
// besides tests.
//
// A test that lacks a tool is skipped with a message that names it, unless
// LIMITDB_E2E=1 is set, as scripts/test does after installing everything: then
// it fails. LIMITDB_LONG=1 lengthens the soak tests.
package e2e
