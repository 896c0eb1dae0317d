package config

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// foreignRow describes directives of Redis that limitdb does not have.
type foreignRow struct {
	names string // patterns
	// harmless are the values that ask for nothing that limitdb lacks.
	harmless []string
	refused  bool   // ignoring it would do what nobody wants
	advice   string // what to do instead; "" if the directive only tunes something that limitdb does not have
}

// foreign returns the row of a directive that Redis has and limitdb does not.
func foreign(name string) (foreignRow, bool) {
	name = strings.ToLower(name)
	for _, row := range [...]foreignRow{
		{names: "rename-command", refused: true, advice: "limitdb cannot rename or hide commands: keep strangers away with bind, requirepass and TLS, and remove the line"},
		{names: "replicaof slaveof", harmless: []string{"no one"}, refused: true, advice: "nodes that hold the same state are set up with raft-addr (docs/replication.md): remove the line"},
		{names: "min-replicas-to-write min-slaves-to-write", harmless: []string{"0"}, refused: true, advice: "with raft-addr a reply waits for a majority of the nodes, and without it appendfsync always makes a reply wait for the disk: remove the line"},
		{names: "cluster-enabled", harmless: []string{"no"}, refused: true, advice: "limitdb does not spread keys over nodes: set no; nodes that hold the same keys are set up with raft-addr"},
		{names: "tls-ca-cert-dir", harmless: []string{""}, refused: true, advice: "put the authorities into one file and name it with tls-ca-cert-file"},
		{names: "tls-key-file-pass", harmless: []string{""}, refused: true, advice: "keep the key in a file without a password that only limitdb may read"},

		{names: "daemonize", harmless: []string{"no"}, advice: "limitdb stays in the foreground: have systemd start it, or use nohup"},
		{names: "pidfile", harmless: []string{""}, advice: "no pid file is written: systemd knows the process, and INFO has process_id"},
		{names: "loadmodule", advice: "limitdb loads no modules; CL.THROTTLE is built in"},
		{names: "syslog-enabled", harmless: []string{"no"}, advice: "limitdb logs to the standard error, which systemd hands to the journal, or to logfile"},
		{names: "notify-keyspace-events", harmless: []string{""}, advice: "limitdb publishes no events"},
		{names: "io-threads", harmless: []string{"1"}, advice: "loops is the number of event loops"},
		{names: "oom-score-adj", harmless: []string{"no"}, advice: "use OOMScoreAdjust in the systemd unit"},
		{names: "server_cpulist bio_cpulist aof_rewrite_cpulist bgsave_cpulist", harmless: []string{""}, advice: "use CPUAffinity in the systemd unit"},
		{names: "aof-load-truncated", harmless: []string{"yes"}, advice: "limitdb always cuts off a torn tail, and always refuses other damage"},
		{names: "stop-writes-on-bgsave-error", harmless: []string{"yes", "no"}, advice: ""},
		{names: "tls-protocols tls-ciphers tls-ciphersuites", advice: "limitdb speaks TLS 1.2 and 1.3 with Go's choice of ciphers"},
		{names: "masterauth masteruser", advice: "the nodes of raft-addr have no password of their own"},

		// Directives that tune parts that limitdb does not have.
		{names: "always-show-logo set-proc-title proc-title-template syslog-* crash-* disable-thp oom-score-adj-values locale-collate " +
			"rdb* sanitize-dump-payload dbfilename appendfilename appenddirname aof-* no-appendfsync-on-rewrite key-load-delay " +
			"replica-* slave-* repl-* masterport min-*-max-lag propagation-error-behavior " +
			"cluster-* acl-pubsub-default lazyfree-* maxmemory-samples maxmemory-eviction-tenacity lfu-* active-* activerehashing activedefrag " +
			"io-threads-do-reads lua-time-limit busy-reply-threshold hash-* list-* set-max-* zset-* hll-* stream-* tracking-table-max-keys " +
			"dynamic-hz jemalloc-bg-thread enable-protected-configs enable-module-command ignore-warnings bind-source-addr socket-mark-id " +
			"tls-replication tls-cluster tls-session-* tls-prefer-server-ciphers tls-client-* tls-dh-params-file gopher-enabled"},
	} {
		for pattern := range strings.FieldsSeq(row.names) {
			if ok, err := path.Match(pattern, name); ok && err == nil {
				return row, true
			}
		}
	}
	return foreignRow{}, false
}

// remarks gathers the warnings of Load.
type remarks struct {
	lines   []string
	ignored []string // directives of Redis that limitdb does not have
}

// foreign notes a directive of Redis; known is false if Redis has none of this name. It returns an error if
// the directive cannot be ignored.
func (m *remarks) foreign(where, name string, words []string) (known bool, err error) {
	row, known := foreign(name)
	if !known || slices.Contains(row.harmless, strings.ToLower(strings.Join(words, " "))) {
		return known, nil
	}
	name = strings.ToLower(name)
	switch {
	case row.refused:
		return true, errors.New(where + name + ": " + row.advice)
	case row.advice != "":
		m.lines = append(m.lines, where+name+" is ignored: "+row.advice)
	case !slices.Contains(m.ignored, name):
		m.ignored = append(m.ignored, name)
	}
	return true, nil
}

// all returns the remarks as lines.
func (m *remarks) all() []string {
	lines := slices.Clone(m.lines)
	if len(m.ignored) > 0 {
		lines = append(lines, "directives of Redis that have no meaning here are ignored: "+strings.Join(m.ignored, " "))
	}
	return lines
}

// foreignAdvice returns what CONFIG SET says about a directive of Redis, or "" if Redis has none of this
// name.
func foreignAdvice(name string) string {
	row, known := foreign(name)
	switch {
	case !known:
		return ""
	case row.advice == "":
		return " (it tunes a part that limitdb does not have)"
	}
	return " (" + row.advice + ")"
}
