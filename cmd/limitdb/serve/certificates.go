package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// certificatesEvery is how often the files of certificates are looked at. Nobody sends a SIGHUP when cert-manager renews what a pod has mounted.
const certificatesEvery = 2 * time.Second

// readCertificates reads the certificates of the ports and of the node again. What cannot be read stays as it was.
func (p *process) readCertificates() error {
	p.reloads.certificates.Lock()
	defer p.reloads.certificates.Unlock()
	var errs [2]error
	if p.tls != nil {
		errs[0] = p.tls.Reload()
	}
	if p.member != nil && p.member.certs != nil {
		if err := p.member.certs.Reload(); err != nil {
			errs[1] = fmt.Errorf("certificates of the node: %w", err)
		}
	}
	err := errors.Join(errs[:]...)
	p.reloads.certificatesFailed.Store(err != nil)
	return err
}

// watchCertificates reads the certificates again when their files have changed.
func (p *process) watchCertificates(ctx context.Context) {
	var paths []string
	if p.tls != nil {
		paths = append(paths, p.set.TLSCertFile.Get(), p.set.TLSKeyFile.Get(), p.set.TLSCACertFile.Get())
	}
	if p.member != nil && p.member.certs != nil {
		paths = append(paths, p.set.RaftTLSCertFile.Get(), p.set.RaftTLSKeyFile.Get(), p.set.RaftTLSCACertFile.Get())
	}
	if len(paths) == 0 {
		return
	}
	files := watchFiles(paths)
	every(ctx, certificatesEvery, func() {
		if !files.changed() {
			return
		}
		if err := p.readCertificates(); err != nil {
			p.log.Error("certificates have changed and cannot be read, the old ones stay in force", "err", err)
			return
		}
		p.log.Info("certificates have changed and were read again")
	})
}

// watchedFiles are files that may be replaced, by themselves or by a link on the way to them.
type watchedFiles struct {
	paths       []string
	known, last string // stamps of all files: when changed was last true, and at the last look
}

func watchFiles(paths []string) *watchedFiles {
	f := &watchedFiles{paths: paths}
	f.known = f.stamps()
	f.last = f.known
	return f
}

// changed reports whether the files are others than when it was last true, and have been the same for two looks. So it does not come
// between the certificate and its key.
func (f *watchedFiles) changed() bool {
	now := f.stamps()
	same := now == f.last
	f.last = now
	if !same || now == f.known {
		return false
	}
	f.known = now
	return true
}

func (f *watchedFiles) stamps() (all string) {
	for _, path := range f.paths {
		if info, err := os.Stat(path); err == nil {
			all += fmt.Sprintf("%d %d\n", info.ModTime().UnixNano(), info.Size())
		} else {
			all += "none\n" // an optional one, or a mistake that reading it reports
		}
	}
	return all
}
