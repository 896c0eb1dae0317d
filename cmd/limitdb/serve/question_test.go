package serve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
)

// A line asks one question after the other, says what the other node refuses, and dials again when that node has started anew.
func TestQuestions(t *testing.T) {
	t.Parallel()
	dials := 0
	var far net.Conn
	l := line{dial: func() (net.Conn, error) {
		if dials++; dials == 4 {
			return nil, errors.New("nobody is there")
		}
		var near net.Conn
		near, far = net.Pipe()
		go answerQuestions(far, "b", func(q *question, from string) (answer, error) {
			switch {
			case q.Prepare != nil:
				return answer{Incarnation: fmt.Sprint(from, q.Prepare.Group)}, nil
			case q.Place != nil:
				return answer{}, errors.New("no")
			}
			return answer{State: &nodeState{Turn: 7, Groups: []groupState{{Group: 3, Leads: true}}}}, nil
		})
		return near, nil
	}}
	ask := func(q question, want string) {
		t.Helper()
		a, err := l.ask(&q, workTime)
		got := fmt.Sprint(a.Incarnation, err)
		if a.State != nil {
			got += fmt.Sprintf(" %+v", *a.State)
		}
		if !strings.HasPrefix(got, want) && !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	ask(question{Prepare: &aboutGroup{5}}, "b5<nil>")
	ask(question{Place: &aboutGroup{5}}, "no")
	ask(question{State: &struct{}{}}, "Turn:7")
	if dials != 1 {
		t.Errorf("%d connections for three questions", dials)
	}
	_ = far.Close()
	ask(question{Prepare: &aboutGroup{6}}, "b6<nil>")
	if dials != 2 {
		t.Errorf("%d connections", dials)
	}
	l.close()
	ask(question{Prepare: &aboutGroup{7}}, "b7<nil>")
	l.close()
	ask(question{Prepare: &aboutGroup{8}}, "nobody is there")
	var refused errAnswer
	if _, err := l.ask(&question{Place: &aboutGroup{}}, workTime); !errors.As(err, &refused) {
		t.Errorf("%v is no answer of the other node", err)
	}
	l.close()
}

// What is no message is an error, however long it says that it is.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	head := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	for what, b := range map[string][]byte{
		"nothing":      nil,
		"half a head":  head(9)[:2],
		"too long":     append(head(maxQuestion+1), make([]byte, maxQuestion+1)...),
		"far too long": head(1<<32 - 1),
		"cut short":    append(head(9), "{}"...),
		"no JSON":      append(head(2), "{("...),
	} {
		var q question
		if err := readMessage(bytes.NewReader(b), maxQuestion, &q); err == nil {
			t.Errorf("%s is a question", what)
		}
	}
	var q question
	if err := readMessage(bytes.NewReader(append(head(2), "{}"...)), maxQuestion, &q); err != nil {
		t.Error(err)
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00{}"))
	f.Add([]byte("\x1b\x00\x00\x00{\"Prepare\":{\"Group\":1000000}}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q question
		if readMessage(bytes.NewReader(b), maxQuestion, &q) == nil && len(b) < 4 {
			t.Error("less than a head is a message")
		}
	})
}
