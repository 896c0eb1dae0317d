// Package serve is the process of a limitdb server: it makes the parts, joins them, and starts and stops them in order.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/internal/decisionlog"
	"limitdb/server"
	"limitdb/server/audit"
	"limitdb/transport"
	"limitdb/uplink"
)

// Run reads the configuration and runs the server until a signal or SHUTDOWN stops it. With --check-config it only reads the
// configuration. It returns the reason why the server could not start, or could not keep its state; an error may have an exit
// status of package cli.
func Run(args []string, version string) error {
	args, checkOnly := cli.CutFlag(args, "--check-config")
	registry, set := config.New()
	if err := registry.Load(config.Sources{Args: args, Environ: os.Environ()}); err != nil {
		return err
	}
	if checkOnly {
		if _, err := loadTLS(set); err != nil {
			return err
		}
		if path := set.RulesFile.Get(); path != "" {
			if _, err := cli.ReadRules(path); err != nil {
				return fmt.Errorf("rules-file %s: %w", path, err)
			}
		}
		if path := set.EnvoyRulesDir.Get(); path != "" {
			if err := (&envoyRules{dir: path}).check(); err != nil {
				return err
			}
		}
		if _, err := loadNodeTLS(set); err != nil {
			return err
		}
		for _, w := range registry.Warnings() {
			fmt.Fprintln(os.Stderr, "limitdb: "+w)
		}
		fmt.Println("limitdb: the configuration is valid")
		return nil
	}
	// By default, Go ends a process that writes to standard output or standard error when nothing reads them.
	// The server must run without its log.
	signal.Ignore(syscall.SIGPIPE)
	p := &process{version: version, registry: registry, set: set}
	for {
		p.clock, p.boot, p.stop = clock.NewReal(), clock.SystemBoot(), make(chan bool, 2)
		err := p.run()
		var n learned
		if !errors.As(err, &n) {
			return err
		}
		registry, set = config.New()
		if err := registry.Load(config.Sources{Args: args, Environ: os.Environ()}); err != nil {
			return err
		}
		p = &process{version: version, registry: registry, set: set, learned: int(n)}
	}
}

// process is the running server and all its parts.
type process struct {
	version     string
	registry    *config.Registry
	set         *config.Settings
	clock       *clock.Real
	boot        func() (id uint64, elapsed int64) // for persistence.Options
	log         *slog.Logger
	logs        *logOutput
	engine      *engine.Engine
	seed        uint64 // of the hashes of newEngine's engines; 0 before the first
	server      *server.Server
	group       *transport.Group
	ports       ports
	saves       bool           // make a snapshot last
	tls         *transport.TLS // nil if no port speaks TLS
	web         *httpPort      // nil without one
	rls         *grpcPort      // nil without grpc-port
	durable     *durability
	rules       *rulesFile  // nil without rules-file
	envoyRules  *envoyRules // nil without envoy-rules-dir
	kept        keptRules
	decisionLog *decisionlog.Log // nil without decision-log
	audit       *audit.Log       // nil without audit-log
	member      *member          // nil for a standalone server
	learned     int              // how many groups the cluster has, 0 if the process has not learned that
	backups     *keptBackups
	reloads     reloads
	stop        chan bool // true means immediately
}

// run starts the parts in their order, waits, and stops them in the reverse order. A start that fails
// stops those that have started.
func (p *process) run() (err error) {
	var undo cleanups
	defer func() { err = cmp.Or(err, undo.run()) }()
	if err := p.build(&undo); err != nil {
		return err
	}
	// Catch signals before the ports open: a client that sees a port answer may send one.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	undo.add(func() error { signal.Stop(signals); return nil })

	served := false // and nothing went wrong
	undo.add(func() error {
		if served {
			return p.keepState()
		}
		return nil
	})
	var background sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	undo.add(func() error { cancel(); background.Wait(); return nil })
	// Clients get -LOADING until the state is loaded.
	p.server.SetLoading(p.durable.loading.Load())
	if p.member != nil {
		for _, g := range p.server.Groups() {
			g.Follow()
		}
	}
	background.Go(func() { p.server.Run(ctx) })
	background.Go(func() { p.slewClock(ctx) })
	background.Go(func() { every(ctx, countersEvery, p.keepCounters) })
	p.watchRules(ctx, &background)
	background.Go(func() { p.watchCertificates(ctx) })

	if p.decisionLog != nil {
		background.Go(func() { p.decisionLog.Run(ctx) })
	}

	now := true // as after a start that fails
	undo.add(func() error { p.close(now, signals); return nil })
	// Bind the HTTP and gRPC ports first. Once the RESP ports are open, a rush of clients could leave no descriptor for
	// it.
	if err := p.listenHTTP(&background); err != nil {
		return err
	}
	if err := p.listenGRPC(ctx, &background); err != nil {
		return err
	}
	if err := p.listen(); err != nil {
		return err
	}
	if err := p.member.open(ctx, &background); err != nil {
		return err
	}
	if stopped, err := p.load(signals, &background, ctx); stopped || err != nil {
		return err
	}
	background.Go(func() { p.backups.run(ctx) })
	p.log.Info("limitdb is ready", "version", p.version, "pid", os.Getpid(), "addresses", p.addresses())
	notify(p.set, p.log, daemon.SdNotifyReady)

	now, err = p.wait(signals)
	if err == nil && !now {
		p.keepCounters() // does nothing if the node no longer leads
		p.member.leave()
	}
	notify(p.set, p.log, daemon.SdNotifyStopping)
	var n learned
	again := errors.As(err, &n)
	if again {
		p.log.Info("this process begins again", "because", err)
	}
	served = err == nil || again
	return err
}

// build makes the parts. None of them runs yet.
func (p *process) build(undo *cleanups) error {
	// The log comes first, since everything below may write to it.
	logs, err := newLogOutput(p.set)
	if err != nil {
		return err
	}
	p.logs, p.log = logs, logs.logger()
	undo.add(func() error { logs.close(); return nil })
	p.registry.OnChange(logs.levelChanged, p.set.LogLevel)

	// Read certificates before any port opens, so that a wrong one prevents the start.
	if p.tls, err = loadTLS(p.set); err != nil {
		return err
	}
	if err := p.fitMemory(); err != nil {
		return err
	}
	p.registry.OnChange(p.fitMemory, p.set.MaxMemory)
	warn(p.log, p.registry.Warnings())
	p.registry.OnChange(func() error { warn(p.log, p.registry.Advice()); return nil }, p.set.ClientOutputBufferLimit, p.set.MaxMemory)
	p.fitMaxClients(systemDescriptors())
	p.engine = engine.New(engine.Options{Shards: int(p.set.Shards.Get())})
	if p.set.RaftAddr.Get() != "" {
		if p.member, err = newMember(p); err != nil {
			return err
		}
	}
	p.budgetChanged()
	p.registry.OnChange(p.budgetChanged, p.set.MaxMemory, p.set.MaxMemoryPolicy)
	// Open the data directory before any port. A second process on it ends here, and so does one whose
	// MANIFEST is damaged.
	if p.durable, err = openDurability(p); err != nil {
		return err
	}
	if path := p.set.DecisionLog.Get(); path != "" {
		p.decisionLog, err = decisionlog.Open(decisionlog.Options{
			Path: path, MaxBytes: p.set.DecisionLogMaxSize.Get(), OneIn: p.set.DecisionLogOneIn.Get, Log: p.log,
		})
		if err != nil {
			return err
		}
	}
	if path := p.set.AuditLog.Get(); path != "" {
		p.audit, err = audit.Open(audit.Options{Path: path, MaxBytes: p.set.AuditLogMaxSize.Get(), Strict: p.set.AuditLogStrict.Get, Log: p.log})
		if err != nil {
			return err
		}
	}
	p.backups = newKeptBackups(p)
	o := server.Options{
		Backups:   p.backups.forServer(),
		Decisions: p.decisionLog, Audit: p.audit, Rules: p.ruleSource(), Users: userSource(p.set, &p.kept),
		Durability: p.keeper(),
		Settings:   p.set, Registry: p.registry, Engine: p.engine, Clock: p.clock, Log: p.log, Version: p.version,
		Shutdown: func(now bool) { p.stop <- now }, Ports: p.tcpPort, Memory: cgroupLimit(systemRoot()),
	}
	if p.member != nil {
		o.Replication = p.member.replica.forServer()
		if s := p.member.several; s != nil {
			o.Groups = s.forServer()
			o.Engine, o.Durability, o.Replication = o.Groups[0].Engine, o.Groups[0].Durability, o.Groups[0].Replication
		}
	}
	p.server = server.New(o)
	p.group = transport.New(p.server, p.transportOptions())
	if p.member != nil {
		p.member.host.Store(uplink.NewHost(p.server, kickOf(p), p.clock, p.member.elapsed()))
	}
	p.durable.roomForSyncs()
	if err := p.loadUsers(); err != nil {
		return err
	}
	return p.loadRules()
}

// keepState makes the final state durable, when nothing can change any more.
func (p *process) keepState() error {
	defer tellIfSlow(p.log).Stop()
	p.keepCounters()
	if p.saves && p.durable.store.Load() != nil {
		p.server.Snapshot()
	}
	if err := p.member.close(); err != nil {
		return fmt.Errorf("the node did not stop well: %w", err)
	}
	if err := p.durable.close(); err != nil {
		return fmt.Errorf("the state was not saved: %w", err)
	}
	p.log.Info("limitdb has stopped")
	return nil
}

// slowStop is how long a stop may wait for the disk before the log reports it.
const slowStop = 5 * time.Second

// tellIfSlow logs what an operator can do about a disk that holds up the stop. The stop itself is not bounded:
// a disk may hang for a while and then keep everything.
func tellIfSlow(log *slog.Logger) *time.Timer {
	return time.AfterFunc(slowStop, func() {
		log.Warn("the stop waits for the disk: another signal ends the process without it", "after", slowStop)
	})
}

// load loads the saved state. stopped reports that a signal came meanwhile, which ends the process: nothing
// that could be lost has changed yet.
func (p *process) load(signals <-chan os.Signal, background *sync.WaitGroup, ctx context.Context) (stopped bool, err error) {
	savePoints := func() { p.durable.savePoints(ctx) }
	if !p.durable.loading.Load() {
		background.Go(savePoints)
		return false, nil
	}
	done := make(chan error, 1)
	go func() { done <- p.durable.load() }()
	for {
		select {
		case err := <-done:
			if err == nil {
				p.server.SetLoading(false)
				background.Go(savePoints)
			}
			return false, err
		case <-p.stop:
			return true, nil
		case s := <-signals:
			if s != syscall.SIGHUP {
				p.log.Info("stopping while the state is being loaded", "signal", s.String())
				return true, nil
			}
			p.reload()
		}
	}
}

// wait returns when the server must stop; now reports whether at once. It returns an error if the log cannot be
// written.
func (p *process) wait(signals <-chan os.Signal) (now bool, err error) {
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGHUP {
				p.reload()
				continue
			}
			p.log.Info("stopping", "signal", s.String())
			return p.stopBy(s), nil
		case now := <-p.stop:
			return now, nil
		case err := <-p.durable.fatal:
			if p.member != nil {
				return true, err
			}
			return true, errLog(err)
		}
	}
}

// stopBy notes the configured way to stop for this signal, and reports whether to stop immediately.
func (p *process) stopBy(s os.Signal) (now bool) {
	asks := config.OnSignal(p.set.ShutdownOnSIGTERM)
	if s == syscall.SIGINT {
		asks = config.OnSignal(p.set.ShutdownOnSIGINT)
	}
	p.saves = asks.Save
	return asks.Now
}

// close stops listening, answers the commands that were read, and closes the clients. A second signal
// shortens this and the rest of the stop.
func (p *process) close(now bool, signals <-chan os.Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), p.set.ShutdownTimeout.Get())
	defer cancel()
	if now {
		cancel()
	}
	go hurry(signals, p.log, cancel, os.Exit)
	drained := p.rls.drain(ctx)
	p.server.Stopping()
	if err := p.group.Close(ctx); err != nil && !now {
		p.log.Warn("clients were cut off", "err", err)
	}
	if p.member != nil {
		p.member.closeUplinks(ctx)
	}
	if p.web != nil {
		if err := p.web.http.Shutdown(ctx); err != nil && !now {
			p.log.Warn("HTTP requests were cut off", "err", err)
		}
	}
	if err := <-drained; err != nil && !now {
		p.log.Warn("gRPC calls were cut off", "err", err)
	}
}

// hurryTime bounds a hurried stop. It is long enough to write what is in memory to a disk that works.
const hurryTime = 2 * time.Second

// hurry handles the signals that come while the process stops, until it has ended. The first one calls
// cancel, which disconnects the clients. If the process still runs after hurryTime, or another signal comes,
// something hangs, and hurry ends the process.
func hurry(signals <-chan os.Signal, log *slog.Logger, cancel func(), exit func(code int)) {
	var over <-chan time.Time
	for {
		select {
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
			case over == nil:
				log.Warn("stopping at once", "signal", s.String())
				cancel()
				over = time.After(hurryTime)
			default:
				log.Error("the process ends before the stop has finished", "signal", s.String())
				exit(1)
				return
			}
		case <-over:
			log.Error("the process ends before the stop has finished", "after", hurryTime)
			exit(1)
			return
		}
	}
}

func (p *process) transportOptions() transport.Options {
	return transport.Options{
		Clock:      p.clock,
		Backlog:    int(p.set.TCPBacklog.Get()),
		KeepAlive:  keepAlive(p.set.TCPKeepalive.Get()),
		AfterInput: kickOf(p), // one sync serves everything that a loop has found to do
		PauseMost:  p.server.MostUnsent,
		Loops:      int(p.set.Loops.Get()), // 0 means the transport's default
		UnixPerm:   os.FileMode(p.set.UnixSocketPerm.Get()),
		Refusal:    []byte("-ERR max number of clients reached\r\n"),
		OnAcceptError: func(on net.Addr, err error, wait time.Duration) {
			p.log.Warn("accepting a connection failed", "on", on, "err", err, "wait", wait)
		},
	}
}

// keepAlive converts the directive to the transport's option: 0 means no probes.
func keepAlive(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// live returns an error if the server makes no progress; the error names what is stuck.
func (p *process) live() error {
	stuck := p.group.Stuck()
	if p.rls != nil {
		stuck = max(stuck, p.rls.grpc.Stuck())
	}
	if stuck > server.StuckAfter {
		return fmt.Errorf("an event loop has made no progress for %v", time.Duration(stuck).Round(time.Second))
	}
	return p.server.Live()
}

// ready returns nil while the server makes decisions.
func (p *process) ready() error {
	if err := p.live(); err != nil {
		return err
	}
	return p.server.Ready()
}

// slewClock keeps the clock of decisions close to the machine's.
func (p *process) slewClock(ctx context.Context) {
	if p.member != nil {
		return // the cluster sets the times of decisions, as offsets from this clock
	}
	every(ctx, time.Second, func() { p.reloads.clockOffset.Store(p.clock.Slew()) })
}

// notify notifies systemd, if the configuration says that it supervises.
func notify(set *config.Settings, log *slog.Logger, state string) {
	if set.Supervised.Get() == "no" {
		return
	}
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("telling systemd", "state", state, "err", err)
	}
}

// lowerMaxClients lowers maxclients to fit, and logs that it does.
func lowerMaxClients(registry *config.Registry, log *slog.Logger, fit, want int64) {
	if err := registry.Set(config.Pair{Name: "maxclients", Value: strconv.FormatInt(fit, 10)}); err != nil {
		log.Warn("lowering maxclients", "err", err)
		return
	}
	log.Warn("maxclients is lowered: the limit on open files allows no more", "maxclients", fit, "wanted", want)
}

// warn logs what an operator should know about the configuration.
func warn(log *slog.Logger, lines []string) {
	for _, line := range lines {
		log.Warn(line)
	}
}
