// Package redact leaves secrets out of the arguments of commands, for MONITOR and the slow log.
package redact

import (
	"bytes"
	"slices"

	"limitdb/config"
	"limitdb/resp"
	"limitdb/server/spec"
)

// Text replaces a secret.
const Text = "(redacted)"

// A Redactor knows where secrets may be.
type Redactor struct {
	Registry *config.Registry
	// Resolve returns the command that arguments call, nil if there is none.
	Resolve func(args [][]byte) *spec.Command
}

// redaction replaces arguments in a copy.
type redaction struct {
	args   [][]byte
	copied bool
}

// hide replaces args[from:to].
func (r *redaction) hide(from, to int) {
	if to = min(to, len(r.args)); from < to && !r.copied {
		r.args, r.copied = slices.Clone(r.args), true
	}
	for i := from; i < to; i++ {
		r.args[i] = []byte(Text)
	}
}

// Args returns the arguments of a command with secrets replaced. It does not change args, and returns args itself if it holds no secret.
// Where a client gives a secret, Args shows only what it understands: a word that is misspelt or left out must not make it show the
// secret.
func (by *Redactor) Args(cmd *spec.Command, args [][]byte) [][]byte {
	r := redaction{args: args}
	switch cmd.Full {
	case "auth":
		r.hide(1, len(args))
	case "hello":
		r.hello()
	case "config|set":
		by.config(&r)
	case "command|getkeys", "command|getkeysandflags":
		by.inner(&r, 2)
	case "acl|setuser":
		r.rules()
	case "acl|dryrun":
		by.inner(&r, 3)
	case "eval", "eval_ro":
		r.script(1)
	case "script|load":
		r.script(2)
	default:
		named := secretNames()
		if cmd.Group == "connection" || cmd.Group == "server" { // elsewhere, these words may be data
			named = append(named, "auth", "auth2", "pass", "password")
		}
		for i := 1; i < len(args); i++ {
			if isAnyOf(args[i], named) {
				r.hide(i+1, len(args))
				break
			}
		}
	}
	return r.args
}

// secretNames returns the names of directives that hold secrets, here or in Redis. (registry.Secret would look up every
// argument of every command.)
func secretNames() []string {
	return []string{"requirepass", "http-password", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"}
}

func isAnyOf(word []byte, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(n) == len(word) && resp.EqualFold(word, n) })
}

// hello shows the version, and SETNAME with its name.
func (r *redaction) hello() {
	for i := 1; i < len(r.args); {
		_, version := resp.ParseInt(r.args[i])
		switch {
		case resp.EqualFold(r.args[i], "AUTH"):
			r.hide(i+1, i+3)
			i += 3
		case resp.EqualFold(r.args[i], "SETNAME"):
			i += 2
		case i == 1 && version && len(r.args[i]) == 1:
			i++
		default:
			r.hide(i, i+1)
			i++
		}
	}
}

// rules shows the rules of ACL SETUSER, but for passwords and what is no rule.
func (r *redaction) rules() {
	words := []string{"on", "off", "nopass", "resetpass", "allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands", "nocommands", "reset"}
	for i := 3; i < len(r.args); i++ {
		rule := r.args[i]
		if len(rule) > 0 && !bytes.ContainsRune([]byte("+-~%&"), rune(rule[0])) && !isAnyOf(rule, words) {
			r.hide(i, i+1)
		}
	}
}

// config shows the directives that hold no secret, and their values. A value that is the name of one that does
// counts as a name: the client may have left out the value before it.
func (by *Redactor) config(r *redaction) {
	secret := func(i int) bool { return i < len(r.args) && by.Registry.Secret(string(r.args[i])) }
	for i := 2; i < len(r.args); {
		switch {
		case secret(i):
			r.hide(i+1, i+2)
			i += 2
		case by.Registry.Known(string(r.args[i])):
			if i++; !secret(i) {
				i++
			}
		default:
			r.hide(i, i+2)
			i += 2
		}
	}
}

// inner redacts the command that begins at from.
func (by *Redactor) inner(r *redaction, from int) {
	if len(r.args) <= from {
		return
	}
	inner := by.Resolve(r.args[from:])
	if inner == nil || inner.Parent != nil && inner.Parent.Name == "COMMAND" {
		r.hide(from+1, len(r.args))
		return
	}
	if got := by.Args(inner, r.args[from:]); len(got) > 0 && &got[0] != &r.args[from] {
		r.args = append(slices.Clone(r.args[:from]), got...)
	}
}

// script hides a script that goes with a secret, and its arguments.
func (r *redaction) script(at int) {
	if callsSecrets(r.args[at]) {
		r.hide(at, len(r.args))
	}
}

// callsSecrets reports whether a script names a command or a directive that goes with a secret, such as redis.call('AUTH', …).
func callsSecrets(text []byte) bool {
	text = bytes.ToLower(text)
	return slices.ContainsFunc(append(secretNames(), "auth", "hello", "setuser"), func(name string) bool {
		for rest := text; ; {
			i := bytes.Index(rest, []byte(name))
			if i < 0 {
				return false
			}
			after := i + len(name)
			quoted := i > 0 && after < len(rest) && rest[i-1] == rest[after] && (rest[after] == '\'' || rest[after] == '"')
			if quoted || i > 1 && rest[i-1] == '[' && after < len(rest) && rest[after] == ']' {
				return true
			}
			rest = rest[after:]
		}
	})
}
