package script

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// MaxSource is the largest source of a script, in bytes; it also bounds what a script loads. The compiler cannot be
// interrupted. It takes some 0.1 s for the worst of this length, by which a script that calls loadstring may exceed its time.
const MaxSource = 256 << 10

// chunkName is the name of every script in its error messages, as in Redis.
const chunkName = "user_script"

// Script is a compiled script. It never changes, and may be run by several VMs at a time.
type Script struct {
	// SHA is the SHA-1 of the source in lower-case hexadecimal, the name by which EVALSHA calls the script.
	SHA string
	// ReadOnly reports whether the script declares, by the flag no-writes, that it writes nothing.
	ReadOnly bool
	// Size is about how many bytes the script takes in memory.
	Size int

	proto *lua.FunctionProto
}

// SHA returns the name by which EVALSHA calls a script: its SHA-1 in lower-case hexadecimal.
func SHA(source []byte) string {
	sum := sha1.Sum(source)
	return hex.EncodeToString(sum[:])
}

// Compile compiles the source of a script. Its errors have Redis' texts, without the code.
func Compile(source []byte) (*Script, error) {
	s := &Script{SHA: SHA(source)}
	text, err := s.shebang(string(source))
	if err != nil {
		return nil, err
	}
	if s.proto, err = compile(text, chunkName); err != nil {
		return nil, replyError("Error compiling script (new function): %v", err)
	}
	s.Size = trim(s.proto)
	return s, nil
}

// trim gives back the room that the compiler has left in a function, which is 17 kB for the shortest, and returns about
// how many bytes the function takes.
func trim(f *lua.FunctionProto) (size int) {
	f.Code, f.DbgSourcePositions, f.DbgCalls = slices.Clone(f.Code), slices.Clone(f.DbgSourcePositions), slices.Clone(f.DbgCalls)
	f.Constants, f.FunctionPrototypes = slices.Clone(f.Constants), slices.Clone(f.FunctionPrototypes)
	f.DbgLocals, f.DbgUpvalues = slices.Clone(f.DbgLocals), slices.Clone(f.DbgUpvalues)
	size = 1500 + 4*len(f.Code) + 8*len(f.DbgSourcePositions) + 24*len(f.DbgCalls) + 64*len(f.DbgLocals) + 16*len(f.DbgUpvalues)
	for _, c := range f.Constants {
		size += 64
		if s, ok := c.(lua.LString); ok {
			size += len(s)
		}
	}
	for _, inner := range f.FunctionPrototypes {
		size += trim(inner)
	}
	return size
}

// shebang reads the line "#!lua flags=…" that a script may begin with, and returns the source without it. The line stays
// empty, so that the numbers of lines stay.
func (s *Script) shebang(source string) (string, error) {
	if !strings.HasPrefix(source, "#!") {
		return source, nil
	}
	line, rest, found := strings.Cut(source, "\n")
	if !found {
		return "", replyError("Invalid script shebang")
	}
	words := strings.Fields(line)
	if words[0] != "#!lua" {
		return "", replyError("Unexpected engine in script shebang: %s", words[0])
	}
	for _, word := range words[1:] {
		flags, found := strings.CutPrefix(word, "flags=")
		if !found {
			return "", replyError("Unknown lua shebang option: %s", word)
		}
		for flag := range strings.SplitSeq(flags, ",") {
			switch flag {
			case "no-writes":
				s.ReadOnly = true
			case "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys", "allow-key-locking", "":
			default:
				return "", replyError("Unexpected flag in script shebang: %s", flag)
			}
		}
	}
	return "\n" + rest, nil
}

// compile compiles Lua that counts its memory.
func compile(source, name string) (proto *lua.FunctionProto, err error) {
	if len(source) > MaxSource {
		return nil, fmt.Errorf("%s: a script may have at most %d bytes", name, MaxSource)
	}
	defer func() { // the compiler panics where it finds an error
		if p := recover(); p != nil {
			proto, err = nil, fmt.Errorf("%s: %v", name, p)
		}
	}()
	if line := nestedTooDeep(source); line > 0 {
		return nil, fmt.Errorf("%s:%d: %s", name, line, tooDeep)
	}
	chunk, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		return nil, parseError(err, name)
	}
	var r rewriter
	if chunk = r.function(chunk); r.err != nil {
		return nil, fmt.Errorf("%s:%w", name, r.err)
	}
	if proto, err = lua.Compile(chunk, name); err != nil {
		return nil, err
	}
	proto.IsVarArg &^= lua.VarArgNeedsArg // the library would make a table of the arguments that a script does not have
	return proto, nil
}

// parseError says a parser's error in one line, as Lua does.
func parseError(err error, name string) error {
	var e *parse.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Pos.Line == parse.EOF {
		return fmt.Errorf("%s: %s near '<eof>'", name, e.Message)
	}
	return fmt.Errorf("%s:%d: %s near '%s'", name, e.Pos.Line, e.Message, e.Token)
}

// Wording is an error with the text of Redis, capitals and full stops included, because clients may look for it.
type Wording string

// Error returns the text.
func (w Wording) Error() string { return string(w) }

// replyError returns a Wording.
func replyError(format string, args ...any) error { return Wording(fmt.Sprintf(format, args...)) }
