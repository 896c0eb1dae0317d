package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// loopback starts f on a loopback address.
func loopback(t *testing.T, f *fake) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.listen(l)
	t.Cleanup(func() {
		l.Close()
		f.wg.Wait()
	})
	return l.Addr().String()
}

// respond returns a function that answers INFO with the id of this process, and other commands with other.
func respond(other string) func(int, []string) string {
	return func(_ int, args []string) string {
		switch args[0] {
		case "INFO":
			text := fmt.Sprintf("# Server\r\nredis_version:7.4.0\r\nprocess_id:%d\r\n", os.Getpid())
			return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
		case "AUTH":
			return "+OK\r\n"
		}
		return other
	}
}

// execute runs the subcommand and returns what it printed.
func execute(args ...string) (out, errOut string, err error) {
	var o, e bytes.Buffer
	cmd := Command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return o.String(), e.String(), err
}

func TestCommandPrintsJSON(t *testing.T) {
	f := &fake{answer: respond(denied)}
	addr := loopback(t, f)
	t.Setenv(passwordVariable, "secret")
	out, errOut, err := execute("-a", addr, "-c", "3", "-P", "8", "-n", "2400", "--keys", "10", "--json")
	if err != nil || errOut != "" {
		t.Fatalf("%v, %q", err, errOut)
	}
	var r Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Requests != 2400 || r.Limited != 2400 || r.Errors != 0 || r.Latency.Max == 0 || r.ClientCPU == 0 {
		t.Errorf("%+v", r)
	}
	n := map[string]int{}
	for _, c := range f.commands {
		n[c[0]]++
		if c[0] == "CL.THROTTLE" && (len(c) != 5 || !strings.HasPrefix(c[1], "user:00000000000") || c[4] != "360000") {
			t.Fatalf("%q", c)
		}
	}
	if n["CL.THROTTLE"] != 2400 || n["AUTH"] != 4 || n["INFO"] != 1 {
		t.Errorf("the server saw %v", n)
	}
}

func TestCommandPrintsATable(t *testing.T) {
	addr := loopback(t, &fake{answer: respond(granted)})
	out, _, err := execute("-a", addr, "-c", "2", "--rate", "10000", "-d", "50ms", "--distribution", "single", "RL.TAKE", "{key}", "-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RL.TAKE {key} -1\n", "one key, open loop at 10000/s", "\nrequests       500  ", "\nsent late by "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestCommandFailsOnErrorReplies(t *testing.T) {
	addr := loopback(t, &fake{answer: respond("-ERR unknown command\r\n")})
	out, _, err := execute("-a", addr, "-c", "1", "-n", "10")
	if err == nil || err.Error() != `10 of 10 replies were errors, such as "ERR unknown command"` {
		t.Errorf("%v", err)
	}
	if !strings.Contains(out, "errors         10") {
		t.Errorf("%s", out)
	}
}

func TestCommandErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-a", nobody}, "connection 1 of 50: dial tcp " + nobody + ": connect: connection refused"},
		{[]string{"-a", "/nowhere/s"}, "connection 1 of 50: dial unix /nowhere/s: connect: no such file or directory"},
		{[]string{"-c", "0"}, "--connections, --pipeline and --keys must be above 0"},
		{[]string{"-P", "-1"}, "pipeline must be 1 to 65536"},
		{[]string{"--distribution", "x"}, `unknown distribution "x": uniform, zipf, sequential or single`},
		{[]string{"--rate", "-1"}, `invalid argument "-1" for "--rate" flag`},
		{[]string{"--nonsense"}, "unknown flag: --nonsense"},
	} {
		if _, _, err := execute(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestPIDOf(t *testing.T) {
	f := &fake{answer: respond(granted)}
	if pid := PIDOf(t.Context(), Config{Addr: loopback(t, f)}); pid != os.Getpid() {
		t.Errorf("%d", pid)
	}
	for name, reply := range map[string]string{
		"an error":       "-NOAUTH\r\n",
		"no process":     "$4\r\na:b\n\r\n",
		"not a number":   "$14\r\nprocess_id:abc\r\n",
		"not there":      "$19\r\nprocess_id:99999999\r\n",
		"no RESP at all": "hello\r\n",
	} {
		f := &fake{answer: func(int, []string) string { return reply }}
		if pid := PIDOf(t.Context(), Config{Addr: loopback(t, f)}); pid != 0 {
			t.Errorf("%s: %d", name, pid)
		}
	}
}

func TestProcessCPU(t *testing.T) {
	before := ownCPU() - 10*time.Millisecond
	own, err := processCPU(os.Getpid())
	// Getrusage may count in steps.
	if after := ownCPU() + 10*time.Millisecond; err != nil || own < before || own > after {
		t.Errorf("%v, %v: not from %v to %v", own, err, before, after)
	}
	for _, pid := range []int{-1, 0, 99_999_999} {
		if _, err := processCPU(pid); err == nil {
			t.Errorf("there is no process %d", pid)
		}
	}
}
