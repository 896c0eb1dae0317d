package serve

import (
	"fmt"
	"os"
	"slices"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
	"limitdb/internal/disk"
	"limitdb/internal/journal"
	"limitdb/server/auth"
)

// Users come from aclfile, from the user lines of the configuration or, without either, from ACL SETUSER. In the last case they are kept with
// the data as rules are: in the same records, and so in the log of the cluster.

// userSource says where the server's users come from.
func userSource(set *config.Settings, kept *keptRules) auth.Source {
	switch path := set.ACLFile.Get(); {
	case path != "":
		return auth.Source{Read: func() ([]byte, error) { return readUsers(path) }, Write: func(text []byte) error { return writeUsers(path, text) }}
	case len(set.User.Get()) > 0:
		return auth.Source{}
	}
	return auth.Source{Keep: kept.keepUsers}
}

// readUsers reads an ACL file.
func readUsers(path string) ([]byte, error) {
	text, err := cli.ReadBounded(path, auth.MostText)
	switch {
	case err != nil:
		return nil, fmt.Errorf("aclfile %s: %w", path, err)
	case len(text) > auth.MostText:
		return nil, fmt.Errorf("aclfile %s: it has more than %d bytes", path, auth.MostText)
	}
	return text, nil
}

// writeUsers replaces an ACL file, which keeps its permissions.
func writeUsers(path string, text []byte) error {
	info, err := os.Stat(path)
	if err == nil {
		err = disk.Replace(disk.OS{}, path, text)
	}
	if err == nil {
		err = os.Chmod(path, info.Mode().Perm())
	}
	return err
}

// loadUsers puts the users of aclfile or of the configuration in force, before the first client. Its error ends the start.
func (p *process) loadUsers() error {
	u := p.server.Users()
	switch lines := p.set.User.Get(); {
	case p.set.ACLFile.Get() != "":
		return u.Reload()
	case len(lines) > 0:
		all := make([][]string, len(lines))
		for i, words := range lines {
			all[i] = append([]string{"user"}, words...)
		}
		if err := u.Set(all); err != nil {
			return fmt.Errorf("the user lines of the configuration: %w", err)
		}
	case p.member != nil || p.durable.loading.Load():
		u.Await()
	}
	return nil
}

// usersLoaded puts the users in force that were kept with the data, once that is loaded.
func (p *process) usersLoaded() { putUsers(p, p.kept.users()) }

// putUsers puts users in force that were set by command, unless a file or the configuration has others.
func putUsers(p *process, text []byte) {
	u := p.server.Users()
	if u.Keep == nil {
		return
	}
	if err := u.Load(text); err != nil {
		p.log.Error("users that were kept with the data cannot be read: they cannot sign in", "err", err)
	}
}

// keepUsers keeps the users that were set by command. On a node of a cluster that does not lead, it keeps nothing and returns
// server.ErrNotLeading.
func (k *keptRules) keepUsers(text []byte) error {
	return k.change(func() { k.put(usersText, text) })
}

// users returns the users, nil if none were set by command.
func (k *keptRules) users() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.values[usersText]
}

// haveKept reports whether records have one of the values of keptRules.
func haveKept(records []journal.Record, name string) bool {
	return slices.ContainsFunc(records, func(r journal.Record) bool { return r.Kind == rulesKind && string(r.Key) == name })
}
