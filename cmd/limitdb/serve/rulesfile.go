package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"limitdb/cmd/limitdb/cli"
	"limitdb/rules"
	"limitdb/server/rulebook"
)

// rulesFile is the file that rules-file names.
type rulesFile struct {
	path string
	last atomic.Pointer[stamp] // of the file that was read last
}

// stamp distinguishes one state of a file from another, without reading it. Its info is nil if there is no file.
type stamp struct{ info os.FileInfo }

func stampOf(path string) *stamp {
	info, err := os.Stat(path)
	if err != nil {
		info = nil
	}
	return &stamp{info}
}

func (a *stamp) same(b *stamp) bool {
	if a.info == nil || b.info == nil {
		return a.info == b.info
	}
	return os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime())
}

// changed reports whether the file is another one than was read last.
func (f *rulesFile) changed() bool { return !stampOf(f.path).same(f.last.Load()) }

// read reads the file, but no more than one byte above the most that a file of rules may have.
func (f *rulesFile) read() ([]byte, error) {
	now := stampOf(f.path)
	f.last.Store(now)
	if now.info != nil && !now.info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", f.path)
	}
	return cli.ReadBounded(f.path, rules.MaxText)
}

// Times of watching. A file that is written in place has half its text for a moment, so a change is read only when
// nothing has happened for rulesQuiet. File systems of other machines notify nobody, so rulesPoll looks as well.
const (
	rulesQuiet = 200 * time.Millisecond
	rulesPoll  = 5 * time.Second
)

// watchRules reads files with rules again whenever they change, until ctx ends.
func (p *process) watchRules(ctx context.Context, background *sync.WaitGroup) {
	if f := p.rules; f != nil {
		background.Go(func() { p.watch(ctx, "rules-file", filepath.Dir(f.path), f.changed, p.server.Rules().ReloadFile) })
	}
	if e := p.envoyRules; e != nil {
		background.Go(func() { p.watch(ctx, "envoy-rules-dir", e.dir, e.changed, p.server.Rules().ReloadDomains) })
	}
}

// watch calls reload whenever files in a directory have changed, until ctx ends. A mistake leaves the old rules in force. It watches the
// directory, since editors and Kubernetes replace a file, or a link on the way to it, rather than write to it.
func (p *process) watch(ctx context.Context, directive, dir string, changed func() bool, reload func() error) {
	watcher, err := fsnotify.NewWatcher()
	var events chan fsnotify.Event
	if err == nil {
		defer watcher.Close()
		err = watcher.Add(dir)
		events = watcher.Events
	}
	if err != nil {
		p.log.Warn("the rules cannot be watched: the server checks them from time to time", "directive", directive, "every", rulesPoll, "err", err)
	}
	quiet, poll := time.NewTimer(rulesPoll), time.NewTicker(rulesPoll)
	defer quiet.Stop()
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			if !ok {
				events = nil
			}
			quiet.Reset(rulesQuiet)
			continue
		case <-poll.C:
		case <-quiet.C:
		}
		if !changed() {
			continue
		}
		if err := p.server.ReloadRules("file", reload); err != nil {
			p.log.Error("the rules are not loaded, the old rules stay in force", "directive", directive, "in", dir, "err", err)
		}
	}
}

// ruleSource says where the server's rules come from.
func (p *process) ruleSource() (src rulebook.Source) {
	if dir := p.set.EnvoyRulesDir.Get(); dir != "" {
		p.envoyRules = &envoyRules{dir: dir}
		src.ReadDomains = p.envoyRules.read
	}
	if path := p.set.RulesFile.Get(); path != "" {
		p.rules = &rulesFile{path: path}
		src.Read = p.rules.read
	} else {
		src.Keep = p.kept.keep
	}
	src.SecretFollows = p.member.ofSeveral()
	return src
}

// loadRules puts the rules of files in force, before the first check. Its error ends the start. Rules that are
// kept with the data follow when that is loaded.
func (p *process) loadRules() error {
	if p.rules != nil {
		if err := p.server.Rules().ReloadFile(); err != nil {
			return fmt.Errorf("rules-file %s: %w", p.rules.path, err)
		}
	}
	if p.envoyRules != nil {
		if err := p.server.Rules().ReloadDomains(); err != nil {
			return fmt.Errorf("envoy-rules-dir %s: %w", p.envoyRules.dir, err)
		}
	}
	return nil
}

// rulesLoaded puts the rules in force that were kept with the data, once that is loaded, unless there is a file.
func (p *process) rulesLoaded() {
	if secret, ok := p.kept.secret(); ok {
		putSecret(p, secret)
	}
	text := p.kept.text()
	if text == nil {
		text = []byte(rules.Empty)
	}
	putRules(p, text)
}

// putRules puts rules in force that were set by command, unless there is a file.
func putRules(p *process, text []byte) {
	if p.rules != nil {
		return
	}
	if _, err := p.server.Rules().Load(text); err != nil {
		p.log.Error("the rules that were kept with the data have a mistake, the old ones stay in force", "err", err)
	}
}

// keepSecret keeps the secret that is hashed with long identities, if files have rules. Without files, the first
// rules that are set by command are kept with it. Of several groups it is always kept: all nodes must have it before the first check.
func (p *process) keepSecret() {
	if p.rules == nil && p.envoyRules == nil && !p.member.ofSeveral() {
		return
	}
	secret, _ := p.server.Rules().Secret()
	if err := p.kept.keep(nil, secret); err != nil {
		p.log.Error("the secret for hashing long identities was not stored", "err", err)
	}
}
