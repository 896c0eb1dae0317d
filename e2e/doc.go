// Package e2e has the tests that start the real binary and drive it with real clients: redis-cli,
// redis-benchmark, client libraries in eight languages, redis_exporter, and hostile peers. It contains only
// tests.
//
// A test that lacks a tool is skipped with a message that names the tool, unless LIMITDB_E2E=1 is set; then
// it fails. scripts/test sets it after installing everything. LIMITDB_LONG=1 lengthens the soak tests.
package e2e
