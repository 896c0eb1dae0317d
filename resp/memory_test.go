package resp

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"weak"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.TotalAlloc
	f()
	runtime.ReadMemStats(&m)
	return m.TotalAlloc - before
}

// round does what a connection does with one read, and returns the number of commands.
func round(t testing.TB, r *Reader, b []byte) (n int) {
	r.Feed(b)
	for {
		args, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if args == nil {
			r.Keep()
			return n
		}
		n++
	}
}

// Announcing a large number costs nothing: memory depends on the bytes received.
func TestAnnouncedLengthsCostNothing(t *testing.T) {
	limits := Limits{Args: 1 << 20, WideArgs: 1 << 30, Bulk: 1 << 40, Inline: 1 << 30, Query: 1 << 40}
	for _, in := range []string{
		"*1048576\r\n",
		"*1048576\r\n$1\r\na\r\n",
		"*1073741824\r\n$4\r\nMGET\r\n$1\r\n",
		"*1\r\n$1099511627776\r\n",
		"*1\r\n$1099511627776\r\na",
		"*1048576\r\n$1099511627776\r\nabc",
		"*2000\r\n$10000\r\n" + strings.Repeat("k", 6000),
	} {
		for _, pieces := range [][][]byte{{[]byte(in)}, bytewise([]byte(in))} {
			r := &Reader{Limits: limits, Wide: wide}
			n := allocated(func() {
				for _, p := range pieces {
					if round(t, r, p) != 0 || !r.Partial() {
						t.Fatalf("%q is a command", in)
					}
				}
			})
			// The runtime may start a thread meanwhile, which takes 6 kB.
			if n > uint64(16<<10+6*len(in)) || r.Memory() > 2*len(in)+minOwn+24*minArgs {
				t.Errorf("%q in %d pieces allocates %d bytes and holds %d", in, len(pieces), n, r.Memory())
			}
			if r.Buffered() != len(in) {
				t.Errorf("%q: %d bytes held", in, r.Buffered())
			}
		}
	}
}

// Two million reads of one byte inside one bulk, and fewer inside each other element that can be long. If the
// cost of a read grew with the bytes held, this would take hours and allocate terabytes.
func TestMillionsOfOneByteReads(t *testing.T) {
	limits := Limits{Args: 1 << 20, WideArgs: 1, Bulk: 4 << 20, Inline: 4 << 20, Query: 8 << 20}
	for name, tt := range map[string]struct {
		before, repeat string
		n              int
		after          string
	}{
		"a bulk":      {"*2\r\n$4\r\nECHO\r\n$2000000\r\n", "k", 2_000_000, "\r\n"},
		"inline":      {"ECHO ", "k", 400_000, "\r\n"},
		"many words":  {"ECHO", " a", 200_000, "\n"},
		"many bulks":  {"*50000\r\n", "$2\r\naa\r\n", 50_000, ""},
		"empty lines": {"", "\r\n", 200_000, "PING\n"},
		"no commands": {"", "*0\r\n", 100_000, "PING\n"},
	} {
		t.Run(name, func(t *testing.T) {
			in := []byte(tt.before + strings.Repeat(tt.repeat, tt.n) + tt.after)
			r := &Reader{Limits: limits}
			commands := 0
			size := allocated(func() {
				for i := range in {
					commands += round(t, r, in[i:i+1])
				}
			})
			if commands != 1 || r.Buffered() != 0 {
				t.Errorf("%d commands, %d bytes left", commands, r.Buffered())
			}
			// A small buffer for each command cut in two, and a doubling one for a long command.
			if size > uint64(100*len(in)) {
				t.Errorf("%d bytes allocated for %d", size, len(in))
			}
		})
	}
}

// An endless header line is an error, found in linear time.
func TestEndlessHeader(t *testing.T) {
	r := &Reader{Limits: Limits{Args: 9, WideArgs: 9, Bulk: 9, Inline: 1 << 18, Query: 1 << 20}}
	in := []byte("*1\r\n$" + strings.Repeat("1", 1<<18))
	got := read(t, r, bytewise(in)...)
	if got.err != errBulkHeader {
		t.Errorf("%v", got)
	}
}

// A backlog that is taken one command a round stays linear, too, and releases its memory along the way.
func TestBacklogOfCommands(t *testing.T) {
	const n = 100_000
	in := bytes.Repeat(command("CL.THROTTLE", "user123", "15", "30", "60"), n)
	r := &Reader{Limits: normal}
	moved := 0
	size := allocated(func() {
		r.Feed(in)
		r.Keep()
		for i := range n {
			args, err := r.Next()
			if len(args) != 5 || err != nil {
				t.Fatalf("command %d: %q, %v", i, args, err)
			}
			r.Keep()
			if r.start == 0 {
				moved += r.Buffered()
			}
			if held, most := r.Memory(), 10*r.Buffered()+8*minOwn; held > most && i > n/2 {
				t.Fatalf("after command %d: %d bytes allocated for %d", i, held, r.Buffered())
			}
		}
	})
	if moved > len(in) || size > uint64(4*len(in)) {
		t.Errorf("%d bytes moved and %d allocated for %d", moved, size, len(in))
	}
	if args, err := r.Next(); args != nil || err != nil || r.Buffered() != 0 || r.own != nil {
		t.Errorf("after the last: %q, %v, %d bytes", args, err, r.Buffered())
	}
}

// A command's large buffers do not outlive it.
func TestMemoryIsGivenBack(t *testing.T) {
	words := strings.Fields(strings.Repeat("a ", 65535))
	whole := command(append([]string{"MGET"}, words...)...)
	for name, cut := range map[string]int{"in one piece": 0, "in two": len(whole) / 2} {
		r := &Reader{Limits: normal, Wide: wide}
		if n := round(t, r, whole[:cut]) + round(t, r, whole[cut:]); n != 1 {
			t.Fatalf("%s: %d commands", name, n)
		}
		if r.Memory() != 0 || r.Buffered() != 0 {
			t.Errorf("%s: a wide command leaves %d bytes allocated, %d held", name, r.Memory(), r.Buffered())
		}
	}

	r := &Reader{Limits: Limits{Args: 9, WideArgs: 9, Bulk: 1 << 20, Inline: 64, Query: 1 << 21}}
	big := command("ECHO", strings.Repeat("k", 1<<20))
	round(t, r, big[:len(big)-1])
	if r.Memory() < len(big)-1 {
		t.Fatalf("%d bytes allocated for %d", r.Memory(), len(big)-1)
	}
	round(t, r, append(big[len(big)-1:], "*1\r\n$4\r\nPI"...))
	if r.Memory() > 2*minOwn+24*minArgs {
		t.Errorf("a big command leaves %d bytes allocated", r.Memory())
	}
	round(t, r, []byte("NG\r\n"))
	if r.own != nil {
		t.Errorf("an idle reader holds a buffer of %d bytes", cap(r.own))
	}
}

// The slice of arguments, which is reused, keeps no buffer alive.
func TestArgumentsKeepNoBufferAlive(t *testing.T) {
	r := &Reader{Limits: normal}
	b := append(make([]byte, 0, 4096), pingIn...)
	p := weak.Make(&b[:1][0])
	round(t, r, b)
	b = nil
	runtime.GC()
	if p.Value() != nil {
		t.Error("what was fed is still reachable after Keep")
	}
	runtime.KeepAlive(r)
}

func TestReaderAllocatesNothing(t *testing.T) {
	throttle := command("CL.THROTTLE", "user123", "15", "30", "60")
	r := &Reader{Limits: normal, Wide: wide}
	for name, in := range map[string][]byte{
		"one":       throttle,
		"pipeline":  bytes.Repeat(throttle, 64),
		"inline":    []byte("CL.THROTTLE user123 15 30 60\r\n"),
		"long bulk": command("ECHO", strings.Repeat("k", 60000)),
		"nothing":   []byte("*0\r\n\r\n"),
	} {
		round(t, r, in)
		if n := testing.AllocsPerRun(100, func() { round(t, r, in) }); n != 0 {
			t.Errorf("%s: %v allocations a round", name, n)
		}
	}
	// A pipeline that is always cut in the middle of a command uses one small buffer over and over.
	in := bytes.Repeat(throttle, 64)
	half := len(throttle) / 2
	in = append(append(append([]byte(nil), in[half:]...), throttle...), in[:half]...)
	round(t, r, throttle[:half])
	if n := testing.AllocsPerRun(100, func() {
		if n := round(t, r, in); n != 65 {
			t.Fatalf("%d commands", n)
		}
	}); n != 0 {
		t.Errorf("cut: %v allocations a round", n)
	}
}
