package observe

import (
	"time"

	"limitdb/internal/stats"
)

// Source provides the figures. The HTTP port's goroutines call its functions, several at the same time; the
// functions must not block.
type Source struct {
	// Snapshot adds up the counters as they are now. It is called once for each scrape.
	Snapshot func() Snapshot
	// Ready returns nil while the server makes decisions. Otherwise its error is the reason, in words for
	// people: "loading", "stopping".
	Ready func() error
	// Live returns nil while the server makes progress. Otherwise a restart is needed, and the error names
	// the part that is stuck. If Live is nil, the server always counts as live.
	Live func() error
}

// Snapshot is the state of the server at one instant. Counters count from the start of the process and never
// decrease. Slices are read after the call returns, so they must not be changed afterwards.
type Snapshot struct {
	stats.Server
	// ClockOffset is how far the machine's wall clock is ahead of the clock of decisions.
	ClockOffset time.Duration

	Engine stats.Engine
	// MaxMemory is the limit on Engine.Bytes (maxmemory), 0 for none.
	MaxMemory int64
	Config    Config
	// Durability describes what is kept on disk. Refusing reports whether changes are refused because the log
	// cannot be written.
	Durability stats.Durability
	Refusing   bool
	// Backups describes the backups of this server.
	Backups Backups
	// Certificates has the certificates in use.
	Certificates []Certificate
	// Replication describes this node of a cluster.
	Replication stats.Replication
	// Groups are the groups of which this node has a replica; none in a cluster of one group.
	Groups []Group

	// TopLimited has the keys that are denied most often now, with their counts of the last minutes. It is
	// empty unless metrics-top-keys asks for some.
	TopLimited []stats.Count

	// Rules has the rules in force, in their order, and RulesProblem reports whether the last change of them had
	// a mistake.
	Rules        []Rule
	RulesProblem bool
	// Checks has the figures of the checks in each namespace, and ShadowLimited counts those of all namespaces that were allowed but
	// that a rule in shadow mode or a candidate would have limited.
	Checks        []Checks
	ShadowLimited uint64

	// EnvoyLimits has the figures of limits in trees of descriptors, by their names: the domain and the keys, with dots between them.
	EnvoyLimits map[string]stats.EnvoyLimit

	// DecisionLog reports whether decisions are logged, DecisionsLogged and DecisionsDropped how many were, and
	// how many were not because the file was too slow or could not be written.
	DecisionLog                       bool
	DecisionsLogged, DecisionsDropped uint64
	// AuditLog reports whether changes are logged, ChangesLogged and ChangesMissing how many lines were written, and how many
	// could not be.
	AuditLog                      bool
	ChangesLogged, ChangesMissing uint64
}

// Certificate says how long a certificate is still valid.
type Certificate struct {
	Directive string // that names its file
	Left      time.Duration
}

// Backups has the figures of backups.
type Backups struct {
	Made, Failed uint64
	Last, Every  int64 // when the last one was made, Unix ns, and backup-every in ns; 0 for never
}

// Rule has the counters of a rule.
type Rule struct {
	Namespace, Name string
	Mode            string // enforce, shadow, off
	stats.Rule
}

// Checks has the figures of the checks in a namespace.
type Checks struct {
	Namespace string
	// Allowed and Limited count the checks that took something or found no limit, and those that a rule denied.
	Allowed, Limited uint64
	// Latency has how long checks took.
	Latency stats.Histogram
}

// Config describes the reloads of the configuration.
type Config struct {
	// Reloads and ReloadFailures count reloads since the start.
	Reloads, ReloadFailures uint64
	// LastReloadOK is false after a failed reload. The start counts as a successful reload.
	LastReloadOK bool
	// LastReload is when the current configuration was loaded.
	LastReload time.Time
}
