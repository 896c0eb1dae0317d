package known_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"limitdb/known"
	"limitdb/known/knowntest"
	"limitdb/resp"
	"limitdb/value"
)

// The vectors are what Debian's redis-server made of calls of the scripts: the arguments,
// what the keys held before and after, and the reply. They have no script's text. See
// record_test.go for how they are made.
const vectorsFile = "testdata/vectors.jsonl"

// vector is one call of a script.
type vector struct {
	SHA    string   `json:"sha"`
	Now    int64    `json:"now"` // µs of Unix time
	Args   []string `json:"args"`
	Before []held   `json:"before"` // of each key
	Reply  string   `json:"reply"`
	After  []held   `json:"after"`
}

// held is what a key holds.
type held struct {
	Key     string   `json:"key"`
	Type    string   `json:"type"`
	Texts   []string `json:"texts,omitempty"`
	Expires int64    `json:"expires,omitempty"` // ms of Unix time; 0: never
}

// TestVectors compares each handler with what Redis has done. A handler may leave a call
// to its script, but not nearly all of them.
func TestVectors(t *testing.T) {
	if *recordFrom != "" {
		record(t, *recordFrom)
	}
	file, err := os.Open(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	calls, handled := map[string]int{}, map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		s := known.Find(v.SHA)
		if s == nil {
			t.Fatalf("%s is in no table", v.SHA)
		}
		calls[v.SHA]++
		if v.check(t, s) {
			handled[v.SHA]++
		}
	}
	for _, spec := range knowntest.Specs() {
		if n := calls[spec.SHA]; n == 0 || handled[spec.SHA]*6 < n {
			t.Errorf("%s: the handler took %d of %d calls", spec.SHA, handled[spec.SHA], n)
		}
	}
}

// check runs the handler, and reports whether it took the call.
func (v *vector) check(t *testing.T, s *known.Script) bool {
	m := keys{}
	r := &known.Run{Now: v.Now * 1000, Store: m}
	r.Proto = resp.RESP2
	for _, h := range v.Before {
		r.Keys = append(r.Keys, []byte(h.Key))
		m.set(h)
	}
	for _, arg := range v.Args {
		r.Args = append(r.Args, []byte(arg))
	}
	took := s.Run(r)
	want := v.After
	if !took {
		want = v.Before
	} else {
		reply, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(r.Out)), 1<<20)
		if err != nil || render(reply) != v.Reply {
			t.Errorf("%s %s %+v: replies %s, %v", s.Library, s.Name, v, render(reply), err)
		}
	}
	for i, h := range want {
		if got := m.get(v.Before[i].Key); !reflect.DeepEqual(got, h) {
			t.Errorf("%s %s %+v: holds %+v", s.Library, s.Name, v, got)
		}
	}
	return took
}

// keys is a Store.
type keys map[string]known.Value

func (m keys) Get(key []byte) (known.Value, bool) { return m[string(key)], true }

func (m keys) Put(key []byte, v *known.Value, splices []value.Splice) {
	if v.Body == nil {
		delete(m, string(key))
		return
	}
	body := v.Body
	if v.Late {
		body = value.Apply(body, splices)
	}
	m[string(key)] = known.Value{Type: v.Type, Expires: v.Expires, Body: bytes.Clone(body)}
}

// set makes a key hold what a vector says.
func (m keys) set(h held) {
	v := known.Value{Expires: h.Expires}
	switch h.Type {
	case "string":
		v.Type, v.Body = value.String, value.AppendString(nil, []byte(h.Texts[0]))
	case "list":
		l := value.OpenList(nil)
		for _, text := range h.Texts {
			l.PushRight([]byte(text))
		}
		v.Type, v.Body = value.List, l.Body()
	case "hash":
		hash := value.OpenHash(nil)
		for i := 0; i < len(h.Texts); i += 2 {
			hash.Set([]byte(h.Texts[i]), []byte(h.Texts[i+1]))
		}
		v.Type, v.Body = value.Hash, hash.Body()
	}
	m.Put([]byte(h.Key), &v, nil)
}

// get returns what a key holds, as a vector says it.
func (m keys) get(key string) held {
	v := m[key]
	h := held{Key: key, Type: v.Type.String(), Expires: v.Expires}
	add := func(text []byte) { h.Texts = append(h.Texts, string(text)) }
	switch v.Type {
	case value.String:
		add(value.StringText(nil, v.Body))
	case value.List:
		value.OpenList(v.Body).Range(0, -1, nil, add)
	case value.Hash:
		value.OpenHash(v.Body).Each(func(field, text []byte) { add(field); add(text) })
	}
	return h
}
