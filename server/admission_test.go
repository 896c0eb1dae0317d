package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/pubsub"
	"limitdb/uplink"
)

// admissionFile has what every command is answered, whoever asks and whatever state the server is in.
const admissionFile = "testdata/admission.txt"

// What a command asks through, in the order of the letters in a column.
var admissionCallers = []string{"session", "pipeline", "MULTI", "EXEC", "script", "read-only script", "HTTP", "another node's client"}

// The columns. Each says how the state comes about on a server, and which arguments a command has.
var admissionStates = []struct {
	name  string
	words admissionWords
	set   func(ts *testServer, s *session)
}{
	{"usual", goodWords, func(*testServer, *session) {}},
	{"too few arguments", fewWords, func(*testServer, *session) {}},
	{"too many arguments", manyWords, func(*testServer, *session) {}},
	{"a key that is too long", longKey, func(*testServer, *session) {}},
	{"the key of a rule", ruleKey, func(*testServer, *session) {}},
	{"loading", goodWords, func(ts *testServer, _ *session) { ts.SetLoading(true) }},
	{"the log cannot be written", goodWords, func(ts *testServer, _ *session) { ts.SetRefusing(errors.New("full")) }},
	{"another node leads, and forwards nothing", goodWords, func(ts *testServer, _ *session) { ts.group.Follow() }},
	{"another node leads, and no uplink is there", goodWords, func(ts *testServer, _ *session) {
		ts.opts.Replication.Uplink = func(int) *uplink.Link { return nil }
		ts.group.Follow()
	}},
	{"writes are paused", goodWords, func(ts *testServer, _ *session) { ts.pause.Start(testStart, testStart+1e15, false) }},
	{"all is paused", goodWords, func(ts *testServer, _ *session) { ts.pause.Start(testStart, testStart+1e15, true) }},
	{"not authenticated", goodWords, func(_ *testServer, s *session) {
		if s != nil {
			s.setAuthed(false)
		}
	}},
	{"subscribed", goodWords, func(_ *testServer, s *session) {
		if s != nil {
			s.subs.Add(pubsub.Channel, []byte("news"))
		}
	}},
	{"loading, paused, and another node leads", goodWords, func(ts *testServer, _ *session) {
		ts.SetLoading(true)
		ts.pause.Start(testStart, testStart+1e15, true)
		ts.group.Follow()
	}},
}

type admissionWords uint8

const (
	goodWords admissionWords = iota
	fewWords
	manyWords
	longKey
	ruleKey
)

// args returns a call of a command.
func (w admissionWords) args(cmd *command) [][]byte {
	args := [][]byte{}
	for _, word := range strings.Split(strings.ToUpper(cmd.Full), "|") {
		args = append(args, []byte(word))
	}
	n := cmd.Arity
	if n < 0 {
		n = 2 - n
	}
	switch w {
	case fewWords:
		return args
	case manyWords:
		n += 30
	}
	for len(args) < n {
		args = append(args, []byte("1"))
	}
	if w != longKey && w != ruleKey || !cmd.HasKeys() {
		return args
	}
	key := bytes.Repeat([]byte("k"), 21)
	if w == ruleKey {
		key = []byte(rules.Prefix)
	}
	from, to, step := cmd.KeyRange(args)
	for ; from < to; from += step {
		args[from] = key
	}
	return args
}

// TestAdmission compares the answers to all commands with those in admissionFile. LIMITDB_RECORD=1 writes the file anew.
//
//test:norace
func TestAdmission(t *testing.T) {
	t.Parallel()
	texts := map[string]map[string]string{} // by the command's name, then by state and caller
	rows := allCommands().rows
	rows = append(rows, nil)
	for _, caller := range admissionCallers {
		for _, state := range admissionStates {
			redirect := "moved"
			if strings.HasSuffix(state.name, "no uplink is there") {
				redirect = "forward"
			}
			ts := stubbed(t, caller, redirect)
			a := asker{ts, caller, state.set}
			for i := range rows {
				name, args := "nonsense", [][]byte{[]byte("NONSENSE"), []byte("1")}
				var cmd *command
				if rows[i] != nil {
					cmd = ts.table.rows[i]
					name, args = cmd.Full, state.words.args(cmd)
				}
				if texts[name] == nil {
					texts[name] = map[string]string{}
				}
				texts[name][state.name+caller] = canonical(a.ask(args), name)
			}
			name := "client|nonsense"
			if texts[name] == nil {
				texts[name] = map[string]string{}
			}
			texts[name][state.name+caller] = canonical(a.ask([][]byte{[]byte("CLIENT"), []byte("NONSENSE")}), name)
		}
	}
	got := admissionTable(texts)
	if os.Getenv("LIMITDB_RECORD") == "1" {
		if err := os.WriteFile(admissionFile, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(admissionFile)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	recorded := strings.Split(string(want), "\n")
	for _, l := range strings.Split(got, "\n") {
		if !slices.Contains(recorded, l) {
			t.Errorf("not as recorded: %s", l)
		}
	}
	if !t.Failed() {
		t.Error("lines of the record are missing")
	}
}

// stubbed returns a node whose commands only say that they run, but for those through which the caller asks.
func stubbed(t *testing.T, caller, redirect string) *testServer {
	ts, p := newNode(t, "max-key-len 20", "raft-redirect "+redirect, "requirepass secret")
	p.holds.Store(false)
	p.leader = "127.0.0.1:7"
	for _, cmd := range ts.table.rows {
		carries := caller == "EXEC" && cmd.Name == "EXEC" || caller == "script" && cmd.Name == "EVAL" || caller == "read-only script" && cmd.Name == "EVAL_RO"
		if carries {
			continue
		}
		cmd.Plan, cmd.Prepare = nil, nil
		runs := "runs"
		switch {
		case !cmd.InStep():
		case caller == "EXEC", caller == "script", caller == "read-only script":
			runs = "runs in a step"
		}
		if cmd.Run != nil {
			cmd.Run = func(c *call) { c.Simple(runs) }
		}
		if cmd.Do != nil {
			cmd.Do = func(c *call, _ *handler.Txn) { c.Simple(runs) }
		}
		if cmd.Walk != nil {
			cmd.Walk = func(c *call, _ handler.Keyspace) { c.Simple(runs) }
		}
	}
	return ts
}

// An asker asks a server as a caller does, in a state.
type asker struct {
	*testServer
	caller string
	set    func(ts *testServer, s *session)
}

// ask returns the answers to a command as they are sent.
func (a asker) ask(args [][]byte) string {
	defer func() { // the usual state again
		a.SetLoading(false)
		a.SetRefusing(nil)
		a.pause.Stop()
		a.group.Lead(a.engine, 0)
	}()
	if a.caller == "HTTP" {
		a.set(a.testServer, nil)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		out, err := a.Do(ctx, args...)
		if err != nil {
			return "waits"
		}
		return string(out)
	}
	here := &net.UnixAddr{Net: "unix", Name: "here"}
	conn := &fakeConn{turn: 1e9, remote: here, local: here, woken: make(chan struct{}, 1)}
	s := a.Accept(conn).(*session)
	defer s.Closed(clients.ErrEOF)
	s.setAuthed(true)
	s.authed = true
	one := resp.AppendCommand(nil, args...)
	switch a.caller {
	case "pipeline":
		a.set(a.testServer, s)
		s.Data(append(one, one...))
	case "MULTI":
		s.multi = &multi{open: true}
		a.set(a.testServer, s)
		s.Data(one)
	case "EXEC":
		s.multi = &multi{open: true}
		s.Data(one)
		a.set(a.testServer, s)
		s.Data(resp.AppendCommand(nil, "EXEC"))
	case "script", "read-only script":
		eval := map[string]string{"script": "EVAL", "read-only script": "EVAL_RO"}[a.caller]
		a.set(a.testServer, s)
		s.Data(resp.AppendCommand(nil, append([][]byte{[]byte(eval), []byte("return redis.pcall(unpack(ARGV))"), []byte("0")}, args...)...))
	case "another node's client":
		a.set(a.testServer, s)
		s.begin()
		s.far = &uplink.Conn{}
		s.execute(args)
		s.far = nil
		s.finish()
	default:
		a.set(a.testServer, s)
		s.Data(one)
	}
	out := string(conn.take())
	if s.pub.Parked() {
		out += "waits"
	}
	if s.multi != nil && s.multi.broken {
		out += " and EXEC runs nothing"
	}
	if why := s.life.Reason(); why != nil {
		out += " and ends: " + why.Error()
	}
	return out
}

// canonical returns an answer without the name of its command.
func canonical(answer, name string) string {
	if half := answer[:len(answer)/2]; answer == half+half { // twice, in a pipeline
		answer = half
	}
	answer = strings.TrimSuffix(strings.ReplaceAll(answer, "\r\n", " "), " ")
	for _, n := range []string{name, strings.ReplaceAll(name, "|", " ")} {
		for _, n := range []string{n, strings.ToUpper(n)} {
			answer = strings.ReplaceAll(answer, "'"+n+"'", "'COMMAND'")
			answer = strings.ReplaceAll(answer, "ERR "+n+" ", "ERR COMMAND ")
		}
	}
	// The words of a wrong call are the command's own.
	answer = regexp.MustCompile(`Cell error: Store error: Usage: [^[]*\[<quantity>\]|ERR wrong number of arguments[^*+-]*command[^*]*?( and EXEC| -NOAUTH| -ERR Can| -EXECABORT| waits|$)`).ReplaceAllString(answer, "ERR wrong number of arguments…$1")
	return regexp.MustCompile(`Try [A-Z ]* HELP`).ReplaceAllString(answer, "Try COMMAND HELP")
}

// admissionTable renders answers: a letter for each text, a line for all commands with the same answers.
func admissionTable(texts map[string]map[string]string) string {
	letters := map[string]rune{}
	var all []string
	for _, of := range texts {
		for _, text := range of {
			if _, ok := letters[text]; !ok {
				letters[text] = 0
				all = append(all, text)
			}
		}
	}
	slices.Sort(all)
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789αβγδεζηθικλμνξοπρστυφχψωбгджзийлпуфцчшщъыэюя"
	var b strings.Builder
	for i, text := range all {
		letters[text] = []rune(alphabet)[i]
		fmt.Fprintf(&b, "%c  %s\n", letters[text], text)
	}
	b.WriteString("\nThe columns, each with a letter for " + strings.Join(admissionCallers, ", ") + ":\n")
	lines := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		var l strings.Builder
		for _, state := range admissionStates {
			for _, caller := range admissionCallers {
				l.WriteRune(letters[texts[name][state.name+caller]])
			}
			l.WriteByte(' ')
		}
		lines[l.String()] = append(lines[l.String()], name)
	}
	for i, state := range admissionStates {
		fmt.Fprintf(&b, "%d  %s\n", i+1, state.name)
	}
	b.WriteByte('\n')
	for _, l := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&b, "%s %s\n", l, strings.Join(lines[l], " "))
	}
	return b.String()
}
