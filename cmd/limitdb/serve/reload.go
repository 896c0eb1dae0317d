package serve

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/daemon"

	"limitdb/config"
	"limitdb/transport"
)

// reloads counts the results of SIGHUP.
type reloads struct {
	certificates       sync.Mutex // held while certificates are read
	certificatesFailed atomic.Bool

	done, failed atomic.Uint64
	lastFailed   atomic.Bool
	at           atomic.Int64 // Unix ns
	clockOffset  atomic.Int64 // ns
}

// reload handles SIGHUP: it reopens the log files and reads password files and certificates again. If one of
// these fails, its old value stays.
func (p *process) reload() {
	notify(p.set, p.log, daemon.SdNotifyReloading)
	defer notify(p.set, p.log, daemon.SdNotifyReady)
	var failed bool
	for _, part := range []struct {
		name string
		read func() error
	}{
		{"logfile", p.logs.reopen},
		{"decision-log", func() error {
			if p.decisionLog == nil {
				return nil
			}
			return p.decisionLog.Reopen()
		}},
		{"audit-log", p.audit.Reopen},
		{"requirepass-file", p.registry.ReloadSecrets},
		{"rules-file", func() error {
			if p.rules == nil {
				return nil
			}
			return p.server.ReloadRules("signal", p.server.Rules().ReloadFile)
		}},
		{"envoy-rules-dir", func() error {
			if p.envoyRules == nil {
				return nil
			}
			return p.server.ReloadRules("signal", p.server.Rules().ReloadDomains)
		}},
		{"certificates", p.readCertificates},
	} {
		if err := part.read(); err != nil {
			failed = true
			p.log.Error("reload failed, the old values stay in force", "part", part.name, "err", err)
		}
	}
	p.reloads.lastFailed.Store(failed)
	if failed {
		p.reloads.failed.Add(1)
		return
	}
	p.reloads.done.Add(1)
	p.reloads.at.Store(p.clock.Now())
	p.log.Info("reloaded")
}

// loadTLS reads the certificates, or returns nil if no port speaks TLS.
func loadTLS(set *config.Settings) (*transport.TLS, error) {
	if set.TLSPort.Get() == 0 && !set.HTTPTLS.Get() && !set.GRPCTLS.Get() {
		return nil, nil
	}
	auth, err := transport.ParseClientAuth(set.TLSAuthClients.Get())
	if err != nil {
		return nil, fmt.Errorf("tls-auth-clients: %w", err)
	}
	return transport.LoadTLS(transport.TLSOptions{
		CertFile: set.TLSCertFile.Get(), KeyFile: set.TLSKeyFile.Get(), CAFile: set.TLSCACertFile.Get(), ClientAuth: auth,
	})
}
