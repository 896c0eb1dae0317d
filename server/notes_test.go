package server

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"limitdb/resp"
)

// The replies that the reference shows are those of a new server to one client,
// in order.
func TestNotesShowRealReplies(t *testing.T) {
	block := regexp.MustCompile("(?s)```\n(> .*?)```")
	notes := readNotes(t)
	shown := 0
	for _, cmd := range allCommands().rows {
		ts := newTestServer(t)
		c := ts.client()
		for _, b := range block.FindAllStringSubmatch(notes[cmd.noteName()], -1) {
			for _, exchange := range strings.Split("\n"+b[1], "\n> ")[1:] {
				in, want, _ := strings.Cut(exchange, "\n")
				got := strings.Join(cliLines(c.do(strings.Fields(in)...)), "\n")
				if want = strings.TrimRight(want, "\n"); got != want {
					t.Errorf("%s: %s\n got\n%s\nwant\n%s", cmd.Full, in, got, want)
				}
				shown++
			}
		}
	}
	if shown < 3 {
		t.Errorf("only %d exchanges were found", shown)
	}
}

// cliLines renders a reply as redis-cli does.
func cliLines(v resp.Value) []string {
	switch {
	case v.Null:
		return []string{"(nil)"}
	case v.Kind == '-':
		return []string{"(error) " + v.Text}
	case v.Kind == '+':
		return []string{v.Text}
	case v.Kind == ':':
		return []string{"(integer) " + strconv.FormatInt(v.Int, 10)}
	case v.Kind == '*' && len(v.Elems) == 0:
		return []string{"(empty array)"}
	case v.Kind != '*':
		return []string{strconv.Quote(v.Text)}
	}
	var lines []string
	width := len(strconv.Itoa(len(v.Elems)))
	for i, e := range v.Elems {
		n := strconv.Itoa(i + 1)
		head := strings.Repeat(" ", width-len(n)) + n + ") "
		for _, l := range cliLines(e) {
			lines = append(lines, head+l)
			head = strings.Repeat(" ", len(head))
		}
	}
	return lines
}
