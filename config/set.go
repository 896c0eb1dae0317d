package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Set changes directives while the server runs: all of them or, if it returns an error, none. The errors are
// those of Redis' CONFIG SET, without the leading "ERR ".
func (r *Registry) Set(pairs ...Pair) error {
	_, err := r.Swap(pairs...)
	return err
}

// Swap is like Set, for a caller that may find out later that the change is impossible. back undoes the
// change, except for directives that were set again since.
func (r *Registry) Swap(pairs ...Pair) (back func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.swap(pairs)
}

// TrySet is like Set, for a caller that must not wait. It does nothing and returns false while another change is in progress.
func (r *Registry) TrySet(pairs ...Pair) (done bool, err error) {
	if !r.mu.TryLock() {
		return false, nil
	}
	defer r.mu.Unlock()
	_, err = r.swap(pairs)
	return true, err
}

func (r *Registry) swap(pairs []Pair) (back func(), err error) {
	set := make([]*directive, len(pairs))
	for i, p := range pairs {
		d := r.find(p.Name)
		switch {
		case d == nil:
			//lint:ignore ST1005 Redis' own text, which clients see
			return nil, fmt.Errorf("Unknown option or number of arguments for CONFIG SET - '%s'%s", escape(p.Name), cmp.Or(foreignAdvice(p.Name), r.suggest(p.Name, single)))
		case !d.mutable:
			return nil, refusal(d.name, errors.New("can't set immutable config"))
		case slices.Contains(set[:i], d):
			return nil, refusal(d.name, errors.New("duplicate parameter"))
		}
		set[i] = d
	}
	texts := make([]string, len(pairs))
	for i, d := range set {
		text, err := d.parseOnto(d.value().text, false, []string{pairs[i].Value})
		if err == nil && d.secretFile != nil && d.secretFile.value().text != "" {
			err = fmt.Errorf("it is read from %s: change that file and reload", d.secretFile.name)
		}
		if err != nil {
			return nil, refusal(d.name, err)
		}
		texts[i] = text
	}
	before := r.values()
	var changed []*directive
	for i, d := range set {
		if texts[i] != d.value().text || d.findsAgain(texts[i]) {
			changed = append(changed, d)
		}
		d.set(value{texts[i], fromCommand})
	}
	if about, err := r.carryOut(changed, before); err != nil {
		return nil, refusal(about.name, err)
	}
	after := r.values()
	return func() { r.takeBack(before, after) }, nil
}

// findsAgain reports whether text may mean another value than when it was set before.
func (d *directive) findsAgain(text string) bool {
	_, budget := d.handle.(*Budget)
	return budget && text == auto
}

// takeBack restores the directives that differ between before and after, unless they have been set again.
func (r *Registry) takeBack(before, after []value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var changed []*directive
	now := r.values()
	for i, d := range r.list {
		if before[i] != after[i] && now[i] == after[i] {
			d.set(before[i])
			changed = append(changed, d)
		}
	}
	_, _ = r.carryOut(changed, now) // these values were accepted before
}

// carryOut checks the changes and runs the hooks. On failure it restores the values before, and returns the
// error and the directive that it is about.
func (r *Registry) carryOut(changed []*directive, before []value) (*directive, error) {
	if len(changed) == 0 {
		return nil, nil
	}
	if err := r.check(); err != nil {
		r.restore(before)
		return changed[0], err
	}
	for i, h := range r.hooks {
		about := h.first(changed)
		if about == nil {
			continue
		}
		if err := h.run(); err != nil {
			r.restore(before)
			// The hooks that have run, including the failed one, run again with the old values, which they
			// accepted before.
			for _, h := range r.hooks[:i+1] {
				if h.first(changed) != nil {
					_ = h.run()
				}
			}
			return about, err
		}
	}
	return nil, nil
}

// first returns the first of the hook's directives that has changed.
func (h hook) first(changed []*directive) *directive {
	for _, d := range h.over {
		if slices.Contains(changed, d) {
			return d
		}
	}
	return nil
}

// parseOnto is like parse, for a directive with the canonical text before. again reports whether the same
// source has given before.
func (d *directive) parseOnto(before string, again bool, words []string) (string, error) {
	switch h := d.handle.(type) {
	case *OutputLimit:
		return h.parseOnto(before, words)
	case *Lines:
		return h.parseOnto(before, again, words)
	case *Words:
		if h.adds && again && len(strings.Fields(strings.Join(words, " "))) > 0 {
			return h.parse(append([]string{before}, words...))
		}
	}
	return d.parse(words)
}

// parse calls the handle's parse. It does not accept "(redacted)" for a secret, which a program would send
// that copies the reply of CONFIG GET.
func (d *directive) parse(words []string) (string, error) {
	text, err := d.handle.parse(words)
	if err == nil && d.secret && text == redacted {
		return "", errors.New("the argument is the text that CONFIG GET shows in place of the secret")
	}
	return text, err
}

func refusal(name string, err error) error {
	return fmt.Errorf("CONFIG SET failed (possibly related to argument '%s') - %w", name, err)
}
