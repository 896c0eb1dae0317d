package httpapi

import (
	"strings"
	"testing"
)

// The header field Idempotency-Key becomes ONCE, where something is taken.
func TestIdempotencyKey(t *testing.T) {
	const take, check = `{"key":"u","limit":"GCRA 100/m"}`, `{"namespace":"shop","fields":{"user":"u1"}}`
	for _, c := range []struct {
		path, body, key string
		status          int
		want            string // the words, or the error
	}{
		{"/v1/take", take, `"7f3c"`, 200, "RL.TAKE u GCRA 100/m COST 1 ONCE 7f3c"},
		{"/v1/take", take, ` "7f 3c" `, 200, "RL.TAKE u GCRA 100/m COST 1 ONCE 7f 3c"},
		{"/v1/take", take, `"a\"b\\c"`, 200, `RL.TAKE u GCRA 100/m COST 1 ONCE a"b\c`},
		{"/v1/take", `{"key":"u","limit":"GCRA 100/m","partial":true}`, `"x"`, 200, "RL.TAKE u GCRA 100/m COST 1 PARTIAL ONCE x"},
		{"/v1/take", `{"key":"u","limit":"GCRA 100/m","peek":true}`, `"x"`, 200, "RL.PEEK u GCRA 100/m COST 1"},
		{"/v1/check", check, `"x"`, 200, "RL.CHECK shop 1 user u1 COST 1 ONCE x"},
		{"/v1/check", `{"namespace":"shop","fields":{},"peek":true}`, `"x"`, 200, "RL.CHECK shop 0 COST 1 PEEK"},
		{"/v1/take", take, `7f3c`, 400, "Idempotency-Key must be in quotation marks"},
		{"/v1/take", take, `"`, 400, "must be in quotation marks"},
		{"/v1/take", take, ``, 400, "must be in quotation marks"},
		{"/v1/take", take, `"a";b=c`, 400, "must be in quotation marks"},
		{"/v1/take", take, `"a", "b"`, 400, "byte 2 is"},
		{"/v1/take", take, `"a\"`, 400, `a \\ must be before`},
		{"/v1/take", take, `"a\b"`, 400, `a \\ must be before`},
		{"/v1/take", take, `"ü"`, 400, "printable ASCII"},
		{"/v1/take", take, `""`, 400, "must have 1 to 128 characters"},
		{"/v1/take", take, `"` + strings.Repeat("x", 129) + `"`, 400, "must have 1 to 128 characters"},
		{"/v1/check", check, `x`, 400, "must be in quotation marks"},
	} {
		f := &fake{reply: "*6\r\n:0\r\n:20\r\n:19\r\n:-1\r\n:600\r\n$1\r\nr\r\n"}
		w := f.serve("POST", c.path, c.body, jsonType, "Idempotency-Key: "+c.key)
		got := strings.Join(f.words, " ")
		if c.status != 200 {
			if got != "" {
				t.Errorf("%s: %q has run", c.key, got)
			}
			got = w.Body.String()
		}
		if w.Code != c.status || c.status == 200 && got != c.want || !strings.Contains(got, c.want) {
			t.Errorf("%s %.60s: %d, %q, want %d, %q", c.path, c.key, w.Code, got, c.status, c.want)
		}
	}
	f := &fake{reply: "-IDUSED this ID is that of another request\r\n"}
	if w := f.serve("POST", "/v1/take", take, jsonType, `Idempotency-Key: "x"`); w.Code != 422 || !strings.Contains(w.Body.String(), `"code":"IDUSED"`) {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	f = &fake{reply: granted}
	if w := f.serve("POST", "/v1/take", take, jsonType, `Idempotency-Key: "x"`, `Idempotency-Key: "x"`); w.Code != 400 || !strings.Contains(w.Body.String(), "2 times") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	// A proxy passes its callers' header fields on: none of them may choose an id.
	f = &fake{reply: granted}
	f.serve("GET", "/auth?limit=GCRA+5/m", "", "X-Forwarded-For: 1.2.3.4", `Idempotency-Key: "x"`)
	if got := strings.Join(f.words, " "); got == "" || strings.Contains(got, "ONCE") {
		t.Errorf("/auth: %q", got)
	}
}

// Whatever the header field has, the id that it stands for is one of ONCE, or there is an error.
func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{`"a"`, ` "a\"b" `, `"a\\"`, `"\"`, `"`, `a`, `""`, "\"\x00\"", `"a";b`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := readID([]string{text})
		if err != nil {
			return
		}
		if len(id) < 1 || len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q is %q", text, id)
		}
		again, err := readID([]string{`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(id) + `"`})
		if err != nil || again != id {
			t.Fatalf("%q is %q, and then %q, %v", text, id, again, err)
		}
	})
}
