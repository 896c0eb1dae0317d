package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sources is where Load finds the user's configuration.
type Sources struct {
	// Args is the command line without the program's name: [FILE] [--directive value …]. FILE "-" is standard
	// input.
	Args []string
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// Stdin is read for the file "-"; nil means os.Stdin.
	Stdin io.Reader
	// ReadFile reads the configuration file and requirepass-file. Nil means reading from disk, up to 1 MiB.
	ReadFile func(path string) ([]byte, error)
}

// maxFile is the maximum size of a file in bytes. It is enough for any configuration, and stops reading from
// files without an end, such as /dev/zero.
const maxFile = 1 << 20

// assignment is a value that a source gives to a directive.
type assignment struct {
	to    *directive
	words []string
	from  source
	where string // the start of an error: "limitdb.conf:12: port"
	line  int    // in the configuration file, from 0; -1 elsewhere, such as in an included file
}

// Load reads the file, the environment and the command line and sets every directive. Hooks do not run. Call
// it once, at the start. If it returns an error, nothing has changed. The error is one line that says which
// line of which file, which option or which variable is wrong, and why; it never shows a secret.
func (r *Registry) Load(src Sources) error {
	if src.ReadFile == nil {
		src.ReadFile = readFile
	}
	if src.Stdin == nil {
		src.Stdin = os.Stdin
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remarks = remarks{}

	args, file := src.Args, ""
	if len(args) > 0 && (args[0] == "-" || !strings.HasPrefix(args[0], "-")) {
		file, args = args[0], args[1:]
	}
	var all []assignment
	if len(src.Args) > len(args) {
		data, err := src.read(file)
		if err != nil {
			return fmt.Errorf("%s: %w", onOneLine(file), bare(err))
		}
		p := fileParser{r: r, readFile: src.ReadFile, remarks: &r.remarks}
		if all, err = p.parse(file, data); err != nil {
			return err
		}
	}
	env, err := r.parseEnviron(src.Environ)
	if err != nil {
		return err
	}
	opts, err := r.parseArgs(args)
	if err != nil {
		return err
	}
	all = slices.Concat(all, env, opts)
	r.remarkSecrets(opts)

	r.readFile = src.ReadFile
	before := r.values()
	if err := r.assign(all); err != nil {
		r.restore(before)
		return err
	}
	if file != "" && file != "-" {
		// Make the path absolute, since the working directory may change.
		if r.file, err = filepath.Abs(file); err != nil {
			r.file = file
		}
	}
	return nil
}

// assign carries out the assignments, which come in the order of precedence, weakest first.
func (r *Registry) assign(all []assignment) error {
	now := make(map[*directive]value)
	for _, a := range all {
		before, ok := now[a.to]
		if !ok {
			before = a.to.value()
		}
		text, err := a.to.parseOnto(before.text, ok && before.source == a.from, a.words)
		if err != nil {
			return a.refusal(err)
		}
		now[a.to] = value{text, a.from}
	}
	for d, v := range now {
		d.set(v)
	}
	if err := r.loadSecrets(); err != nil {
		return err
	}
	return r.check()
}

// remarkSecrets warns about passwords among the options on the command line.
func (r *Registry) remarkSecrets(opts []assignment) {
	for _, a := range opts {
		if a.to.secret && strings.Join(a.words, "") != "" {
			file := "aclfile"
			if a.to.secretFile != nil {
				file = a.to.secretFile.name
			}
			r.remarks.lines = append(r.remarks.lines, fmt.Sprintf("%s is on the command line, which every user of the machine can read: use %s, the file or %s",
				a.where, file, envName(a.to.name)))
		}
	}
}

// refusal returns the error for a value that is not allowed.
func (a assignment) refusal(err error) error {
	if a.to.secret || len(a.words) != 1 {
		return fmt.Errorf("%s: %w", a.where, err)
	}
	return fmt.Errorf("%s %s: %w", a.where, quote(a.words[0]), err)
}

// loadSecrets reads the files with secrets, where one is configured and no stronger source gives the secret
// itself.
func (r *Registry) loadSecrets() error {
	for _, d := range r.list {
		if d.secretFile == nil || d.secretFile.value().text == "" {
			continue
		}
		if d.value().source == d.secretFile.value().source {
			return fmt.Errorf("%s and %s are both given: keep one of them", d.name, d.secretFile.name)
		}
		if d.value().source > d.secretFile.value().source && d.value().source != fromSecretFile {
			continue
		}
		text, err := r.readSecret(d)
		if err != nil {
			return err
		}
		d.set(value{text, fromSecretFile})
	}
	return nil
}

// readSecret returns the secret in d's file, without the newline at its end.
func (r *Registry) readSecret(d *directive) (string, error) {
	where := d.secretFile.name + " " + quote(d.secretFile.value().text)
	data, err := r.readFile(d.secretFile.value().text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", where, bare(err))
	}
	text, cut := strings.CutSuffix(string(data), "\n")
	if cut {
		text = strings.TrimSuffix(text, "\r")
	}
	if text == "" {
		// An empty password would turn authentication off although it is wanted.
		return "", fmt.Errorf("%s: the file is empty", where)
	}
	if text, err = d.parse([]string{text}); err != nil {
		return "", fmt.Errorf("%s: %w", where, err)
	}
	return text, nil
}

// ReloadSecrets reads requirepass-file again, if it is in use, and calls the hooks if the password has
// changed. If it returns an error, the old password stays.
func (r *Registry) ReloadSecrets() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.values()
	var changed []*directive
	for _, d := range r.list {
		if d.value().source != fromSecretFile {
			continue
		}
		text, err := r.readSecret(d)
		if err != nil {
			r.restore(before)
			return err
		}
		if text != d.value().text {
			changed = append(changed, d)
			d.set(value{text, fromSecretFile})
		}
	}
	if about, err := r.carryOut(changed, before); err != nil {
		return fmt.Errorf("%s: %w", about.name, err)
	}
	return nil
}

// read returns the contents of the file named on the command line.
func (src Sources) read(file string) ([]byte, error) {
	if file == "-" {
		return readAll(src.Stdin)
	}
	return src.ReadFile(file)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

func readAll(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("longer than %s", formatSize(maxFile))
	}
	return data, err
}

// bare returns err without the path that package os puts in front, since our errors already name the file,
// quoted so that it stays on one line.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
