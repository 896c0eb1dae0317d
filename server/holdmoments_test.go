package server

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// momentsFile has the table of TestGeneratedHoldMoments, between two marks.
const momentsFile = "../docs/holds.md"

// moment is a time at which a hold of 5, made with a TTL of 10 minutes, is committed at a cost of 3.
type moment struct {
	name  string
	steps []string // what happens between the hold and the commit; LIMIT is the limit, "restart" another server with the same records
}

func holdMoments() []moment {
	return []moment{
		{"within its time", []string{"+1m"}},
		{"for the second time", []string{"+1m", "RL.COMMIT k ID a COST 3", "+5s"}},
		{"after a commit of 9", []string{"+1m", "RL.COMMIT k ID a COST 9", "+5s"}},
		{"after its cancel", []string{"+1m", "RL.CANCEL k ID a", "+5s"}},
		{"31 s after a commit", []string{"+1m", "RL.COMMIT k ID a COST 3", "+31s"}},
		{"when its time is over", []string{"+11m"}},
		{"when twice its time is over", []string{"+21m"}},
		{"after a restart or a failover", []string{"+1m", "restart"}},
		{"after its time, and a restart or a failover", []string{"+11m", "restart"}},
		{"after the limit has changed", []string{"+1m", "RL.TAKE k CHANGED"}},
		{"after a change to another family", []string{"+1m", "RL.RESET k", "RL.TAKE k OTHER"}},
		{"after RL.RESET", []string{"+1m", "RL.RESET k", "RL.TAKE k LIMIT COST 4"}},
		{"of an ID that was never held", []string{"RL.CANCEL k ID a", "+31s"}},
	}
}

// heldLimits are a limit of each algorithm, another count of it, and a limit of another family.
func heldLimits() [][3]string {
	const window, bucket = "FIXED 100/h FIRST", "GCRA 100/h"
	return [][3]string{
		{"GCRA 100/h", "GCRA 200/h", window},
		{"TOKEN 100/h", "TOKEN 200/h", window},
		{"LEAKY 100/h", "LEAKY 200/h", window},
		{"QUEUE 100/h", "QUEUE 200/h", window},
		{"WARMUP 100/h", "WARMUP 200/h", window},
		{"FIXED 100/h FIRST", "FIXED 200/h FIRST", bucket},
		{"SLIDING 100/h", "SLIDING 200/h", bucket},
		{"SEGMENTED 100/h SEGMENTS 6", "SEGMENTED 200/h SEGMENTS 6", bucket},
		{"LOG 100/h", "LOG 200/h", bucket},
	}
}

// charged commits a hold of a limit at a moment, and returns what the commit has charged, or its error.
func (m *moment) charged(t *testing.T, limits [3]string, whenOver string) string {
	s := &scope{TB: t}
	defer s.end()
	ts := s.server()
	log := ts.replayed()
	c := ts.client()
	if got := line(c.do(strings.Fields("RL.HOLD k " + limits[0] + " COST 5 TTL 10m ID a ONEXPIRE " + whenOver)...)); m.steps[0] != "RL.CANCEL k ID a" && !strings.HasPrefix(got, "[0 ") {
		t.Fatalf("%s: %s", limits[0], got)
	}
	for _, step := range m.steps {
		if d, ok := strings.CutPrefix(step, "+"); ok {
			by, err := time.ParseDuration(d)
			if err != nil {
				t.Fatal(err)
			}
			ts.clock.Advance(by)
			continue
		}
		if step == "restart" {
			log.drain()
			now := ts.clock.Now()
			ts = newTestServerWith(s, func(o *Options) { ts.engine.Close(); o.Engine = log.again })
			ts.clock.Advance(time.Duration(now - ts.clock.Now()))
			c = ts.client()
			continue
		}
		step = strings.NewReplacer("LIMIT", limits[0], "CHANGED", limits[1], "OTHER", limits[2]).Replace(step)
		if v := c.do(strings.Fields(step)...); v.Err() != nil {
			t.Fatalf("%s: %q: %v", limits[0], step, v.Err())
		}
	}
	v := c.do(strings.Fields("RL.COMMIT k ID a COST 3")...)
	if err := v.Err(); err != nil {
		word, _, _ := strings.Cut(err.Error(), " ")
		return word
	}
	return fmt.Sprintf("%+d", v.Elems[0].Int)
}

// appendHoldMoments appends the table: a row for each moment, and a column for the algorithms that answer alike there.
func appendHoldMoments(t *testing.T, b []byte) []byte {
	b = append(b, "| the commit comes | with `keep` | with `return` |\n|---|---|---|\n"...)
	for _, m := range holdMoments() {
		b = append(b, "| "+m.name...)
		for _, whenOver := range []string{"keep", "return"} {
			var answers []string
			by := map[string][]string{}
			for _, l := range heldLimits() {
				got := m.charged(t, l, whenOver)
				if by[got] == nil {
					answers = append(answers, got)
				}
				name, _, _ := strings.Cut(l[0], " ")
				by[got] = append(by[got], name)
			}
			for i, a := range answers {
				b = append(b, []string{" | ", "; "}[min(i, 1)]+a...)
				if len(answers) > 1 {
					b = append(b, " for "+strings.Join(by[a], ", ")...)
				}
			}
		}
		b = append(b, " |\n"...)
	}
	return b
}

// What a commit is answered at each moment, for all algorithms, is what docs/holds.md says.
//
//test:norace
func TestGeneratedHoldMoments(t *testing.T) {
	const begin, end = "<!-- begin moments -->\n", "<!-- end moments -->"
	page, err := os.ReadFile(momentsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s has no marks", momentsFile)
	}
	want := before + begin + string(appendHoldMoments(t, nil)) + end + after
	if *update {
		if err := os.WriteFile(momentsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s differs: run scripts/docs", momentsFile)
	}
}
