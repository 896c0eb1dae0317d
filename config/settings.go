package config

import (
	"time"

	"limitdb/internal/journal"
)

// Settings has the handles of all directives. The table below and docs/configuration.md describe them.
type Settings struct {
	// Network.
	Port           *Int // 0 means none
	Bind           *Words
	UnixSocket     *Text
	UnixSocketPerm *Int // permission bits; 0 means those of the umask
	ProtectedMode  *Bool
	TCPBacklog     *Int
	TCPKeepalive   *Duration // 0 means off
	Timeout        *Duration // 0 means never

	// Passwords.
	RequirePass     *Text
	RequirePassFile *Text
	ACLFile         *Text  // "" means none
	User            *Lines // "name rules" of users
	ACLLogMaxLen    *Int

	// TLS.
	TLSPort        *Int // 0 means none
	TLSCertFile    *Text
	TLSKeyFile     *Text
	TLSCACertFile  *Text
	TLSAuthClients *Enum // no, optional, yes
	TLSClientsUser *Enum // off, CN

	// Limits.
	MaxClients              *Int
	AuthTimeout             *Duration
	CommandTimeout          *Duration
	WriteTimeout            *Duration
	MaxKeyLen               *Bytes
	Scripts                 *Enum
	ScriptTimeLimit         *Duration
	HoldMaxTTL              *Duration
	ProtoMaxBulkLen         *Bytes
	ClientQueryBufferLimit  *Bytes
	ClientOutputBufferLimit *OutputLimit
	MaxMemoryClients        *Share // of maxmemory, or of the machine's memory if that is not set; 0 means no limit

	// Engine.
	Databases       *Int
	Shards          *Int // a power of two
	Loops           *Int // 0 means automatic
	Hz              *Int
	MaxMemory       *Budget // 0 means no limit
	MaxMemoryPolicy *Enum   // noeviction, least-debt

	// Persistence.
	RulesFile      *Text // "": rules are set by command
	EnvoyRulesDir  *Text // "": none
	Dir            *Text
	AppendOnly     *Bool
	IgnoreData     *Bool
	AppendFsync    *Enum  // always, everysec, no
	Save           *Words // see SavePoints
	RewritePercent *Int   // 0 means never
	RewriteMinSize *Bytes
	FsyncMaxDelay  *Duration
	RecoveryMode   *Enum     // normal, conservative
	RecoveryClock  *Enum     // auto, wall
	BackupEvery    *Duration // 0 means never
	BackupKeep     *Int
	BackupDir      *Text // "" means backups in Dir

	// Replication.
	RaftAddr      *Text // "": one server alone
	RaftBootstrap *Bool
	RaftID        *Text
	// RaftJoin is where clients reach some member of the cluster.
	RaftJoin *Text
	// RaftGroups is how many groups a new cluster has, and RaftReplicas on how many nodes each of them is.
	RaftGroups, RaftReplicas                           *Int
	RaftZone                                           *Text // "": none
	RaftWeight                                         *Int  // beside those of other nodes
	RaftMoves                                          *Int  // replicas of a node at once
	RaftTLSCertFile, RaftTLSKeyFile, RaftTLSCACertFile *Text
	RaftHeartbeat, RaftElection, RaftLease             *Duration
	RaftRedirect                                       *Enum
	RaftAck                                            *Enum

	// Observation.
	LogLevel             *Enum // debug, verbose, notice, warning
	LogFile              *Text // "" means standard error
	DecisionLog          *Text // "" means none
	DecisionLogOneIn     *Int
	DecisionLogMaxSize   *Bytes
	AuditLog             *Text // "" means none
	AuditLogStrict       *Bool
	AuditLogMaxSize      *Bytes
	RecentDenials        *Int // 0 means none
	SlowlogLogSlowerThan *Int // microseconds; -1 means off
	SlowlogMaxLen        *Int
	LatencyTracking      *Bool
	LatencyPercentiles   *Words // see Percentiles
	LatencyThreshold     *Int   // milliseconds; 0 means off
	HTTPPort             *Int   // 0 means none
	HTTPBind             *Words // empty means the same as Bind
	HTTPPassword         *Text
	HTTPPasswordFile     *Text
	HTTPTLS              *Bool
	HTTPDashboard        *Bool
	HTTPHosts            *Words
	MetricsTopKeys       *Int // 0 means none
	HTTPDecisions        *Bool
	HTTPTrustedProxies   *Words // see TrustedProxies
	Pprof                *Bool

	// Envoy.
	GRPCPort       *Int   // 0 means none
	GRPCBind       *Words // empty means the same as Bind
	GRPCTLS        *Bool
	GRPCHeaders    *Enum // no, draft-3, draft-11
	GRPCReflection *Bool
	EnvoyMetrics   *Bool

	// Process.
	Supervised        *Enum // no, systemd, auto
	ShutdownTimeout   *Duration
	ShutdownOnSIGTERM *Words // see OnSignal
	ShutdownOnSIGINT  *Words
	DebugCommand      *Enum // no, yes, local
}

// New returns the registry of all directives, each with its default, and their handles.
func New() (*Registry, *Settings) {
	r := &Registry{byName: map[string]*directive{}}
	s := &Settings{}
	declareNetwork(r, s)
	declareLimits(r, s)
	declareEngine(r, s)
	declareReplication(r, s)
	declareObservation(r, s)
	declareEnvoy(r, s)
	declareProcess(r, s)
	return r, s
}

func declareNetwork(r *Registry, s *Settings) {
	g := group{r, "Network"}
	s.Port = g.int("port", "6379", 0, 65535, mutable,
		"The TCP port for clients; 0: no TCP port.")
	s.Bind = g.words("bind", "127.0.0.1 ::1", mutable,
		"The addresses or host names to listen on. * is all addresses; one that begins with - may be missing on the machine.")
	s.Bind.check = someAddresses
	s.UnixSocket = g.text("unixsocket", "", fixed,
		"The path of a unix socket for clients; empty: none.")
	s.UnixSocket.check = socketPath
	s.UnixSocketPerm = g.octal("unixsocketperm", "0", 0, 0o777, fixed,
		"The permissions of the unix socket in octal, such as 770; 0: those that the umask gives.")
	s.ProtectedMode = g.bool("protected-mode", "yes", mutable,
		"Serve only clients of this machine while no password is set.")
	s.TCPBacklog = g.int("tcp-backlog", "511", 1, 65535, fixed,
		"How many connections may wait to be accepted; the kernel's somaxconn is a limit, too.")
	s.TCPKeepalive = g.seconds("tcp-keepalive", "300", 0, maxSeconds,
		"Probe a connection that has been silent for this many seconds; 0: never.")
	s.Timeout = g.seconds("timeout", "0", 0, maxSeconds,
		"Close a client that has sent nothing for this many seconds; 0: never.")

	g = group{r, "Passwords"}
	s.RequirePass = g.text("requirepass", "", mutable,
		"The password of the user default, which clients give with AUTH; empty: none.")
	s.RequirePassFile = g.text("requirepass-file", "", fixed,
		"A file with the password, in place of requirepass; a newline at its end is ignored.")
	g.keep(s.RequirePass, s.RequirePassFile)
	s.ACLFile = g.text("aclfile", "", fixed,
		"The file with the users and their rights, each on a line. ACL LOAD reads it again, and ACL SAVE writes it. Empty: users come from the directive below or, without any there, from ACL SETUSER, and the server keeps them with the data; in a cluster, all nodes do. See docs/acl.md.")
	s.User = add(g, &Lines{}, "user", "", fixed,
		"A user and its rights, as in: user app on >password ~app:* +@limit. A line for each; there are users here or in aclfile, not in both.")
	r.byName["user"].secret = true
	s.ACLLogMaxLen = g.int("acllog-max-len", "128", 0, 10_000, mutable,
		"How many entries ACL LOG keeps of what users were denied.")
	r.checks = append(r.checks, func() error { return checkUsers(s) })

	g = group{r, "TLS"}
	s.TLSPort = g.int("tls-port", "0", 0, 65535, fixed,
		"The TCP port for clients that speak TLS; 0: none.")
	s.TLSCertFile = g.text("tls-cert-file", "", fixed,
		"The server's certificate and its chain, in PEM. It is read again when it changes, and at SIGHUP.")
	s.TLSKeyFile = g.text("tls-key-file", "", fixed,
		"The key of the certificate, in PEM. It is read again when it changes, and at SIGHUP.")
	s.TLSCACertFile = g.text("tls-ca-cert-file", "", fixed,
		"The authorities that sign clients' certificates, in PEM. It is read again when it changes, and at SIGHUP.")
	s.TLSAuthClients = g.enum("tls-auth-clients", "no", []string{"no", "optional", "yes"}, fixed,
		"Whether clients must present a certificate signed by tls-ca-cert-file. The default in Redis is yes; here it must be set if tls-ca-cert-file is.")
	s.TLSClientsUser = g.enum("tls-auth-clients-user", "off", []string{"off", "CN"}, mutable,
		"Whether a client with a certificate is at once the user whose name is the certificate's common name: CN; off: it gives a name and a password, as others do. Without such a user, a client is default.")
	r.checks = append(r.checks, func() error { return checkTLS(r, s) })
}

func declareLimits(r *Registry, s *Settings) {
	g := group{r, "Limits"}
	s.MaxClients = g.int("maxclients", "10000", 1, 1_000_000, mutable,
		"How many clients may be connected at once. Where a password is set, the oldest client that has not given it gives way to one more.")
	s.AuthTimeout = g.seconds("auth-timeout", "10", 1, 3600,
		"Close a client that has not authenticated within this many seconds.")
	s.CommandTimeout = g.seconds("command-timeout", "10", 1, 3600,
		"Close a client that has not completed a command this many seconds after its first byte.")
	s.WriteTimeout = g.seconds("write-timeout", "60", 1, 3600,
		"Close a client that has read none of its pending replies for this many seconds.")
	s.Scripts = g.enum("scripts", "yes", []string{"yes", "known", "no"}, mutable,
		"Which Lua scripts EVAL runs: yes, any script; known, those of published versions of well-known limiters; no, none.")
	s.ScriptTimeLimit = g.milliseconds("script-time-limit", "1000", 10, mutable,
		"End a script or a transaction (EXEC) that has run for this many milliseconds. None of its writes is kept.")
	s.HoldMaxTTL = g.seconds("hold-max-ttl", "3600", 1, 86400,
		"The longest time, in seconds, for which RL.HOLD holds an estimate.")
	s.MaxKeyLen = g.bytes("max-key-len", "4kb", 1, journal.MaxKey, mutable,
		"The longest key.")
	s.ProtoMaxBulkLen = g.bytes("proto-max-bulk-len", "64kb", 16<<10, 512<<20, mutable,
		"The longest argument of a command.")
	s.ClientQueryBufferLimit = g.bytes("client-query-buffer-limit", "1mb", 64<<10, 1<<30, mutable,
		"How many bytes of unexecuted commands the server keeps for one client.")
	s.ClientOutputBufferLimit = add(g, &OutputLimit{min: 64 << 10, max: 1 << 40}, "client-output-buffer-limit", "64mb", mutable,
		"Close a client whose unsent replies are larger than this: one size, or for each class (normal, replica, pubsub) a hard limit, and a soft limit with the seconds for which it may be exceeded. 0: no limit but maxmemory-clients.")
	s.MaxMemoryClients = add(g, &Share{number{max: 1 << 40}}, "maxmemory-clients", "256mb", mutable,
		"Close the client with the largest buffers while the buffers of all clients hold more than this. A percentage is of maxmemory, or of the memory of the machine or cgroup if maxmemory is 0. 0: no limit.")
	r.checks = append(r.checks, func() error { return checkLengths(s) })
	r.advice = append(r.advice, func() string { return remarkOutput(s) }, func() string { return remarkMemory(s) })
}

func declareReplication(r *Registry, s *Settings) {
	g := group{r, "Replication"}
	s.RaftAddr = g.text("raft-addr", "", fixed,
		"The address at which the other nodes of a cluster dial this one: a host and a port. One that other machines can reach needs certificates. Empty: this server stands alone. See docs/replication.md.")
	s.RaftAddr.check = hostPort
	s.RaftBootstrap = g.bool("raft-bootstrap", "no", fixed,
		"Whether this node begins a cluster if its directory has none.")
	s.RaftID = g.text("raft-id", "", fixed,
		"The name of this node in its cluster, which never changes; empty: the name that is stored in dir, or else a new one.")
	s.RaftID.check = raftID
	s.RaftJoin = g.text("raft-join", "", fixed,
		"Where clients reach any member of the cluster, a host and a port. A node that is not a member asks there to be added, with its own requirepass. With raft-bootstrap, a node begins a cluster only if nobody there is in one.")
	s.RaftJoin.check = hostPort
	s.RaftGroups = g.int("raft-groups", "1", 1, 64, fixed,
		"Among how many groups, a power of two, a new cluster divides its keys, so that several nodes decide. It counts where a cluster begins, and never changes; nodes that join learn it. See docs/replication.md.")
	s.RaftGroups.check = powerOfTwo
	s.RaftReplicas = g.int("raft-replicas", "3", 1, 5, fixed,
		"With several groups, on how many nodes each group is: 1, 3 or 5. It counts where a cluster begins; RAFT REPLICAS changes it later.")
	s.RaftReplicas.check = oddNumber
	s.RaftZone = g.text("raft-zone", "", fixed,
		"With several groups, the name of what this node may be lost together with: a rack, or a zone of a cloud. The replicas of a group are in as many zones as possible.")
	s.RaftZone.check = raftID
	s.RaftWeight = g.int("raft-weight", "100", 1, 10_000, fixed,
		"With several groups, how many replicas and leaders this node gets, beside the weights of other nodes: one with 200 gets twice as many as one with 100.")
	s.RaftMoves = g.int("raft-moves", "2", 1, 16, mutable,
		"With several groups, how many replicas come to or leave one node at the same time. What the node says that leads group 0 counts.")
	s.RaftTLSCertFile = g.text("raft-tls-cert-file", "", fixed,
		"The certificate with which this node proves to the others who it is, and its chain, in PEM. Its DNS names include raft-id. It is read again when it changes, and at SIGHUP.")
	s.RaftTLSKeyFile = g.text("raft-tls-key-file", "", fixed,
		"The key of that certificate, in PEM. It is read again when it changes, and at SIGHUP.")
	s.RaftTLSCACertFile = g.text("raft-tls-ca-cert-file", "", fixed,
		"The authorities that sign the certificates of all nodes, in PEM. It is read again when it changes, and at SIGHUP.")
	s.RaftHeartbeat = g.milliseconds("raft-heartbeat-timeout", "500", 50, mutable,
		"After how many milliseconds without the leader a node asks the others to vote for it: a random time, from this to twice as long. Set the same on all nodes. It cannot be set below the lease timeout with which the node has started.")
	s.RaftElection = g.milliseconds("raft-election-timeout", "500", 50, mutable,
		"How many milliseconds a node waits for votes before it asks again: a random time, from this to twice as long. At least raft-heartbeat-timeout.")
	s.RaftLease = g.milliseconds("raft-lease-timeout", "0", 0, fixed,
		"After how many milliseconds without a majority a leader gives up; at most raft-heartbeat-timeout. 0: the value of raft-heartbeat-timeout at the start.")
	s.RaftRedirect = g.enum("raft-redirect", "forward", []string{"forward", "moved"}, mutable,
		"What a node that does not lead does with commands: forward sends them to the leader, unless the client knows clusters; moved tells every client which node leads.")
	s.RaftAck = g.enum("raft-ack", "quorum", []string{"quorum", "leader"}, mutable,
		"When a reply is sent: quorum, when a majority of the nodes has everything that it reports; leader, at once, so that a failover may forget the changes of the last moments. FLUSHALL and changes of rules always wait for the quorum.")
	r.checks = append(r.checks, func() error { return checkRaft(s) }, func() error { return checkNodes(s) })
}

func declareEngine(r *Registry, s *Settings) {
	g := group{r, "Engine"}
	s.Databases = g.int("databases", "16", 1, 16, fixed,
		"How many numbers SELECT accepts; they all share one key space.")
	s.Shards = g.int("shards", "256", 1, 65536, fixed,
		"The number of parts, each with its own lock, that the keys are divided into; a power of two.")
	s.Shards.check = powerOfTwo
	s.Loops = g.int("loops", "0", 0, 1024, fixed,
		"How many event loops serve clients; 0: half as many as processors.")
	s.Hz = g.int("hz", "10", 1, 500, mutable,
		"How many times a second the server looks for expired keys.")
	s.MaxMemory = add(g, &Budget{number: number{max: 1 << 50}}, "maxmemory", "0", mutable,
		"How much memory keys and their state may take; 0: no limit. auto: six tenths of the memory limit of the cgroup or, without one, of the machine's memory, as they are at the start and at CONFIG SET maxmemory auto.")
	s.MaxMemoryPolicy = g.enum("maxmemory-policy", "noeviction", []string{"noeviction", "least-debt"}, mutable,
		"What happens at maxmemory: noeviction refuses new keys; least-debt forgets the keys that use the smallest share of their limit.")

	g = group{r, "Rules"}
	s.RulesFile = g.text("rules-file", "", fixed,
		"The file with the rules of RL.CHECK. It is read at the start, when it changes, at SIGHUP and by RL.RULES RELOAD. Empty: RL.RULES sets the rules, and the server keeps them with the data; in a cluster, all nodes do.")
	s.EnvoyRulesDir = g.text("envoy-rules-dir", "", fixed,
		"A folder with files of Envoy's rate limit service (docs/envoy.md), beside the other rules: all *.yaml, *.yml and *.json in it, each with another domain. They are read at the start, when they change, at SIGHUP and by RL.RULES RELOAD. Empty: none.")

	g = group{r, "Persistence"}
	s.Dir = g.text("dir", "./limitdb-data", fixed,
		"The folder for data, relative to the working directory. It is created if its parent folder exists.")
	s.Dir.check = notEmpty
	s.AppendOnly = g.bool("appendonly", "yes", mutable,
		"Whether to keep a log of all changes, so that they survive a restart or a crash.")
	s.IgnoreData = g.bool("ignore-existing-data", "no", fixed,
		"Whether a server with appendonly no and no save starts in a folder that has the state of an earlier run, without reading it.")
	s.AppendFsync = g.enum("appendfsync", "everysec", []string{"always", "everysec", "no"}, mutable,
		"When the log is synced to disk: always, before a reply reports the change; everysec, once a second; no, when the kernel does it.")
	s.FsyncMaxDelay = g.seconds("appendfsync-max-delay", "2", 2, 3600,
		"Refuse commands that change something while the oldest write that is not yet on disk is older than this, because the disk hangs. Not for appendfsync no.")
	s.Save = g.words("save", "", mutable,
		"When the server makes snapshots by itself: pairs of seconds and changes, such as 3600 1 300 100; empty: never. Without appendonly there is a log, too, which only snapshots sync.")
	s.Save.check, s.Save.adds = parses(parseSavePoints), true
	s.RewritePercent = g.int("auto-aof-rewrite-percentage", "100", 0, 1_000_000, mutable,
		"Replace the log by a snapshot when the log has grown to this many percent of the last snapshot's size; 0: never.")
	s.RewriteMinSize = g.bytes("auto-aof-rewrite-min-size", "128mb", 0, 1<<50, mutable,
		"Do not replace a log that is smaller than this; that much is loaded in about a second.")
	s.RecoveryMode = g.enum("recovery-mode", "normal", []string{"normal", "conservative"}, fixed,
		"What an unclean stop means for changes that may be lost: normal uses what the disk has; conservative treats the limit of every key as used up at that moment.")
	s.RecoveryClock = g.enum("recovery-clock", "auto", []string{"auto", "wall"}, fixed,
		"The time from which decisions continue after a restart: auto, never before the last decision; wall, the machine's clock, to recover from times that a wrong clock has left.")
	s.BackupEvery = g.seconds("backup-every", "0", 0, maxSeconds,
		"Make a backup in backup-dir every so many seconds; 0: never. See docs/operations.md.")
	s.BackupKeep = g.int("backup-keep", "7", 1, 10_000, mutable,
		"How many backups stay in backup-dir; older ones are removed when a new one is whole.")
	s.BackupDir = g.text("backup-dir", "", fixed,
		"The folder for these backups, which is created if its parent folder exists; better on another disk. Empty: backups in dir.")
}

func declareObservation(r *Registry, s *Settings) {
	g := group{r, "Observation"}
	s.LogLevel = g.enum("loglevel", "notice", []string{"debug", "verbose", "notice", "warning"}, mutable,
		"How much is logged.")
	s.LogFile = g.text("logfile", "", fixed,
		"The file to log to; empty: the standard error.")
	s.DecisionLog = g.text("decision-log", "", fixed,
		"A file to which decisions are logged, as JSON lines that limitdb simulate reads; SIGHUP reopens it. It has the callers' keys. Empty: none.")
	s.DecisionLogOneIn = g.int("decision-log-one-in", "1", 1, 1_000_000_000, mutable,
		"Log one caller in so many, and all of that caller's decisions.")
	s.DecisionLogMaxSize = g.bytes("decision-log-max-size", "256mb", 64<<10, 1<<50, fixed,
		"The most that decision-log and the file before it, whose name ends in .1, may take together.")
	s.AuditLog = g.text("audit-log", "", fixed,
		"A file to which changes are logged, as JSON lines: who changed rules, settings or members, or reset or flushed something, when and from where. See docs/operations.md. SIGHUP reopens it. Empty: none.")
	s.AuditLogStrict = g.bool("audit-log-strict", "no", mutable,
		"Whether a change is refused that cannot be written to audit-log.")
	s.AuditLogMaxSize = g.bytes("audit-log-max-size", "256mb", 64<<10, 1<<50, fixed,
		"The most that audit-log and the file before it, whose name ends in .1, may take together.")
	s.RecentDenials = g.int("recent-denials", "4096", 0, 1_000_000, mutable,
		"How many denials are kept in memory for RL.DENIALS, at about 400 bytes each; 0: none. CONFIG SET forgets those that are there.")
	s.SlowlogLogSlowerThan = g.int("slowlog-log-slower-than", "10000", -1, int64(time.Hour/time.Microsecond), mutable,
		"The slow log records commands that take more than this many microseconds; 0: all, -1: none.")
	s.SlowlogMaxLen = g.int("slowlog-max-len", "128", 0, 100_000, mutable,
		"How many commands the slow log holds.")
	s.LatencyTracking = g.bool("latency-tracking", "yes", mutable,
		"Whether to record the time of each command, for LATENCY HISTOGRAM and the metrics.")
	s.LatencyPercentiles = g.words("latency-tracking-info-percentiles", "50 99 99.9", mutable,
		"The percentiles of each command's time that INFO latencystats shows.")
	s.LatencyPercentiles.check = parses(parsePercentiles)
	s.LatencyThreshold = g.int("latency-monitor-threshold", "0", 0, maxSeconds, mutable,
		"LATENCY LATEST and HISTORY record commands that take this many milliseconds or more; 0: none. While this is on, every command is timed individually.")
	s.HTTPPort = g.int("http-port", "6380", 0, 65535, fixed,
		"The HTTP port, for metrics and health and, if they are on, decisions; 0: none. See docs/http.md.")
	s.HTTPBind = g.words("http-bind", "", fixed,
		"The addresses of the HTTP port, in the form of bind; empty: those of bind.")
	s.HTTPBind.check = addresses
	s.HTTPPassword = g.text("http-password", "", mutable,
		"The password of the HTTP port: Basic authentication with any user name, or a Bearer token. /livez and /readyz need none, nor does /auth, which is for http-trusted-proxies. Empty: none.")
	s.HTTPPasswordFile = g.text("http-password-file", "", fixed,
		"A file with the password, in place of http-password; a newline at its end is ignored.")
	g.keep(s.HTTPPassword, s.HTTPPasswordFile)
	s.HTTPTLS = g.bool("http-tls", "no", fixed,
		"Whether the HTTP port speaks TLS, with tls-cert-file and tls-key-file.")
	s.HTTPDashboard = g.bool("http-dashboard", "yes", fixed,
		"Whether the HTTP port has /dashboard/. While no http-password is set, it is for this machine only. See docs/http.md.")
	s.HTTPHosts = g.words("http-hosts", "", mutable,
		"The host names, besides addresses, localhost and the machine's own name, under which browsers may open the dashboard and, without http-password, /metrics and /v1/ are served. If there are any, /auth is served under no others.")
	s.HTTPHosts.check = hostNames
	s.MetricsTopKeys = g.int("metrics-top-keys", "0", 0, 100, mutable,
		"How many keys /metrics names, of those that are now denied most often; 0: none. Each key is a time series, and whoever reads the metrics sees it.")
	s.HTTPDecisions = g.bool("http-decisions", "no", fixed,
		"Whether the HTTP port makes decisions: /v1/take, /v1/check and /v1/explain for services, /auth for reverse proxies. See docs/http.md.")
	s.HTTPTrustedProxies = g.words("http-trusted-proxies", "127.0.0.0/8 ::1/128", mutable,
		"The addresses and networks of the proxies that may ask /auth, and whose X-Forwarded-For, X-Forwarded-Uri and other headers it believes.")
	s.HTTPTrustedProxies.check = parses(parseNetworks)
	s.Pprof = g.bool("pprof", "no", fixed,
		"Whether the HTTP port serves Go's profiles, to this machine only.")
}

// declareEnvoy declares the directives of the gRPC port.
func declareEnvoy(r *Registry, s *Settings) {
	g := group{r, "Envoy"}
	s.GRPCPort = g.int("grpc-port", "0", 0, 65535, fixed,
		"The gRPC port, which answers Envoy's rate limit service; 0: none. Its clients count among maxclients and give requirepass in the metadata authorization. See docs/envoy.md.")
	s.GRPCBind = g.words("grpc-bind", "", fixed,
		"The addresses of the gRPC port, in the form of bind; empty: those of bind.")
	s.GRPCBind.check = addresses
	s.GRPCTLS = g.bool("grpc-tls", "no", fixed,
		"Whether the gRPC port speaks TLS, with tls-cert-file and tls-key-file.")
	s.GRPCHeaders = g.enum("grpc-headers", "no", []string{"no", "draft-3", "draft-11"}, mutable,
		"Which header fields Envoy is asked to add to what the caller gets: draft-3, RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of the limit that decides; draft-11, RateLimit-Policy and RateLimit of all.")
	s.GRPCReflection = g.bool("grpc-reflection", "no", fixed,
		"Whether the gRPC port describes its services to tools such as grpcurl.")
	s.EnvoyMetrics = g.bool("envoy-metrics", "no", mutable,
		"Whether /metrics has the figures of the limits of Envoy's descriptors under the names that envoyproxy/ratelimit has for them, ratelimit_service_rate_limit_total_hits and others.")
}

// declareProcess declares what concerns the process.
func declareProcess(r *Registry, s *Settings) {
	g := group{r, "Process"}
	s.Supervised = g.enum("supervised", "no", []string{"no", "systemd", "auto"}, fixed,
		"Whether to notify systemd of the start and the stop; auto: only if NOTIFY_SOCKET is set.")
	s.ShutdownTimeout = g.seconds("shutdown-timeout", "10", 0, 3600,
		"How many seconds a stop waits for clients to read their replies.")
	s.ShutdownOnSIGTERM = g.words("shutdown-on-sigterm", "default", mutable,
		"How SIGTERM stops the server: default; now, without waiting for clients; save, with a snapshot. nosave and force change nothing, because a stop loses no data.")
	s.ShutdownOnSIGTERM.check = shutdownWords
	s.ShutdownOnSIGINT = g.words("shutdown-on-sigint", "default", mutable,
		"How SIGINT stops the server, with the same values.")
	s.ShutdownOnSIGINT.check = shutdownWords
	s.DebugCommand = g.enum("enable-debug-command", "local", []string{"no", "yes", "local"}, fixed,
		"Who may use DEBUG: no, nobody; yes, everybody; local, clients of this machine.")
}
