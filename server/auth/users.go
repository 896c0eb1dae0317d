package auth

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"limitdb/config"
	"limitdb/resp"
	"limitdb/server/users"
)

// Source is where users come from and where they are kept. Any goroutine may call the functions, but only one at a time.
type Source struct {
	// Keep keeps the users with the data, as the text of an ACL file. It is nil if they come from a file or the configuration. It
	// returns an error, and keeps nothing, on a node of a cluster that does not lead.
	Keep func(text []byte) error
	// Read and Write read and write the ACL file. They are nil if there is none.
	Read  func() ([]byte, error)
	Write func(text []byte) error
}

// Users has the users in force. Any goroutine may call its methods.
type Users struct {
	Source
	Settings *config.Settings
	Catalog  users.Catalog
	// Changed is called when users have changed; by is the client that has changed them, nil if none has.
	Changed func(by any)

	mu     sync.Mutex                               // held while users change
	serial uint64                                   // of the last new user; guarded by mu
	all    atomic.Pointer[map[string]*users.Rights] // by name; a map that is stored never changes
	loaded atomic.Bool                              // those that are kept are in force
}

// MostText is the most bytes that all users together may have, as an ACL file.
const MostText = 256 << 10

// init puts the user default in force, who may do everything.
func (u *Users) init() {
	u.serial = 1
	u.all.Store(&map[string]*users.Rights{users.Default: users.NewDefault(1)})
	u.Changed = func(any) {}
	u.loaded.Store(true)
}

// Begin makes the rights of default what the commands say, once they are known.
func (u *Users) Begin() { _ = u.replace(nil, nil) }

// Get returns the rights of a user, nil if there is none of that name.
func (u *Users) Get(name string) *users.Rights { return (*u.all.Load())[name] }

// Now returns the rights that a user has now, nil if it was deleted, also if there is another one of its name.
func (u *Users) Now(r *users.Rights) *users.Rights {
	if now := u.Get(r.Name); now != nil && (now.Serial == r.Serial || r.Serial == 0) {
		return now
	}
	return nil
}

// Default returns the rights of the user default, whom a client is until it gives another name.
func (u *Users) Default() *users.Rights { return u.Get(users.Default) }

// Names returns the names of all users, in their order.
func (u *Users) Names() []string { return slices.Sorted(maps.Keys(*u.all.Load())) }

// Open reports whether a client that gives no password is the user default: whether that needs none.
func (u *Users) Open() bool { return u.Default().Open() && u.Settings.RequirePass.Get() == "" }

// Await says that the users are kept with data that is not loaded yet.
func (u *Users) Await() { u.loaded.Store(false) }

// Loaded reports whether the users that are kept with the data are in force.
func (u *Users) Loaded() bool { return u.loaded.Load() }

// SignIn returns the rights of the user with a name and a password, nil if there is none. Guesses are not bounded.
func (u *Users) SignIn(name, password []byte) *users.Rights {
	return u.right(NewAttempt(name, password))
}

// right returns the rights of the user with the name and the password of an attempt, nil if there is none. The time tells little of the password,
// but whether the name is right.
func (u *Users) right(a *Attempt) *users.Rights {
	r := u.Get(a.user)
	if r == nil || !r.On() {
		return nil
	}
	known := r.Knows((*users.Hash)(&a.hash))
	if a.user != users.Default {
		return only(r, known || r.AnyPassword())
	}
	required := u.Settings.RequirePass.Get()
	hash := sha256.Sum256([]byte(required))
	same := bytesEqual(&hash, &a.hash)
	return only(r, known || required == "" && r.AnyPassword() || required != "" && same)
}

func only(r *users.Rights, right bool) *users.Rights {
	if right {
		return r
	}
	return nil
}

// Needs reports whether a name is that of a user who must give a password.
func (u *Users) Needs(name string) bool {
	r := u.Get(name)
	return r == nil || !r.AnyPassword() || name == users.Default && u.Settings.RequirePass.Get() != ""
}

// IsPassword reports whether a text is the password of any user, as of a client that has given one in place of its name.
func (u *Users) IsPassword(text []byte) bool {
	hash := users.Hash(sha256.Sum256(text))
	if required := u.Settings.RequirePass.Get(); required != "" && string(text) == required {
		return true
	}
	for _, r := range *u.all.Load() {
		if r.Knows(&hash) {
			return true
		}
	}
	return false
}

// change puts the users in force that by makes of a copy of all.
func (u *Users) change(who any, keep bool, by func(all map[string]*users.Rights) error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := maps.Clone(*u.all.Load())
	if err := by(all); err != nil {
		return err
	}
	text := textOf(all)
	if len(text) > MostText {
		return fmt.Errorf("all users together may have %d bytes, as an ACL file", MostText)
	}
	if keep && u.Keep != nil {
		if err := u.Keep(text); err != nil {
			return err
		}
	}
	u.all.Store(&all)
	u.Changed(who)
	return nil
}

// set is ACL SETUSER.
func (u *Users) set(who any, name string, rules []string) error {
	return u.change(who, true, func(all map[string]*users.Rights) (err error) {
		if all[name] == nil {
			u.serial++
			all[name] = users.Reset(name, u.serial)
		}
		if all[name], err = all[name].With(rules, u.Catalog); err != nil {
			return err
		}
		if name == users.Default && all[name].AnyPassword() && u.Settings.RequirePass.Get() != "" && slices.ContainsFunc(rules, func(r string) bool { return strings.EqualFold(r, "nopass") }) {
			return errors.New("requirepass is a password of the user default: make that empty first, with CONFIG SET requirepass \"\"")
		}
		return nil
	})
}

// delete is ACL DELUSER. It returns how many of the users there were.
func (u *Users) delete(who any, names []string) (n int, err error) {
	err = u.change(who, true, func(all map[string]*users.Rights) error {
		for _, name := range names {
			if name == users.Default {
				//lint:ignore ST1005 Redis' own text
				return errors.New("The 'default' user cannot be removed")
			}
			if all[name] != nil {
				delete(all, name)
				n++
			}
		}
		return nil
	})
	return n, err
}

// textOf returns users as an ACL file.
func textOf(all map[string]*users.Rights) []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b = append(b, "user "+all[name].Text()+"\n"...)
	}
	return b
}

// Text returns all users as an ACL file, with the hashes of their passwords.
func (u *Users) Text() []byte { return textOf(*u.all.Load()) }

// parse returns the users of an ACL file. A user who is in force already remains the same one, with other rights. The lock is held.
func (u *Users) parse(lines [][]string) (all map[string]*users.Rights, errs []error) {
	all, old := map[string]*users.Rights{}, *u.all.Load()
	for i, words := range lines {
		name, err := "", error(nil)
		switch {
		case len(words) == 0:
			continue
		case len(words) < 2 || words[0] != "user":
			err = errors.New("a line must begin with the word user and a name")
		default:
			name = words[1]
			if problem := users.NameProblem(name); problem != "" {
				err = errors.New(problem)
			} else if all[name] != nil {
				err = errors.New("there are two lines for user " + resp.Quote([]byte(name)))
			}
		}
		if err == nil {
			all[name], err = u.begin(name, old).With(words[2:], u.Catalog)
		}
		if err != nil {
			delete(all, name)
			errs = append(errs, fmt.Errorf("line %d: %w", i+1, err))
		}
	}
	return all, errs
}

// begin returns the rights from which the rules of a user's line begin: none, or those of a new default.
func (u *Users) begin(name string, old map[string]*users.Rights) *users.Rights {
	serial := u.serial + 1
	if r := old[name]; r != nil {
		serial = r.Serial
	} else {
		u.serial++
	}
	return users.Reset(name, serial)
}

// words splits the text of an ACL file into its lines and their words. A line that begins with # is a comment.
func words(text []byte) (all [][]string) {
	for line := range bytes.Lines(text) {
		fields := users.Words(string(line))
		if len(fields) > 0 && strings.HasPrefix(fields[0], "#") {
			fields = nil
		}
		all = append(all, fields)
	}
	return all
}

// Set puts the users of some lines in force, each the word user, a name and rules, in place of all others. If a line is wrong, the old
// users stay in force.
func (u *Users) Set(lines [][]string) error { return u.replace(nil, lines) }

func (u *Users) replace(who any, lines [][]string) error {
	return u.change(who, false, func(all map[string]*users.Rights) error {
		next, errs := u.parse(lines)
		if len(errs) > 0 {
			return errors.Join(errs[:min(len(errs), 10)]...)
		}
		clear(all)
		maps.Copy(all, next)
		u.complete(all)
		return nil
	})
}

// complete adds the user default, if it is missing, as it is at first.
func (u *Users) complete(all map[string]*users.Rights) {
	if all[users.Default] == nil {
		all[users.Default] = users.NewDefault(u.Default().Serial)
	}
}

// Load puts the users in force that were kept with the data: nil for none but default. A user whose line this version cannot read has no
// rights and cannot sign in. The error names those lines.
func (u *Users) Load(text []byte) error {
	var wrong []error
	err := u.change(nil, false, func(all map[string]*users.Rights) error {
		next, errs := u.parse(words(text))
		wrong = errs
		clear(all)
		maps.Copy(all, next)
		if len(errs) > 0 && all[users.Default] == nil {
			all[users.Default] = users.Reset(users.Default, u.Default().Serial)
		}
		u.complete(all)
		return nil
	})
	u.loaded.Store(true)
	u.Changed(nil)
	return errors.Join(append(wrong, err)...)
}

// Reload reads the ACL file again. If that fails, the old users stay in force.
func (u *Users) Reload() error { return u.reload(nil) }

func (u *Users) reload(who any) error {
	if u.Read == nil {
		return errNoFile
	}
	text, err := u.Read()
	if err != nil {
		return err
	}
	if err := u.replace(who, words(text)); err != nil {
		return fmt.Errorf("aclfile: %w. The users are as they were", err)
	}
	return nil
}

// save writes the ACL file.
func (u *Users) save() error {
	if u.Write == nil {
		return errNoFile
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.Write(u.Text())
}

// errNoFile is the error of SAVE and LOAD without an ACL file, in Redis' words as far as they are true here.
//
//lint:ignore ST1005 Redis' own text
var errNoFile = errors.New("This Redis instance is not configured to use an ACL file. Users that are set by command are kept with the data, unless the configuration has user lines")
