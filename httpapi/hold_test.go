package httpapi

import (
	"strings"
	"testing"
)

// The replies of the server to a check that settles.
const (
	settled   = "*6\r\n:150\r\n:50\r\n:1000\r\n:0\r\n:3600\r\n$6\r\ntokens\r\n"
	nothing   = "*6\r\n:0\r\n:0\r\n:-1\r\n:-1\r\n:0\r\n$0\r\n\r\n"
	cancelled = "*7\r\n:-1\r\n:0\r\n:10\r\n:10\r\n:0\r\n$8\r\nrequests\r\n*2\r\n" +
		"*6\r\n:-400\r\n:0\r\n:1000\r\n:1000\r\n:0\r\n$6\r\ntokens\r\n*6\r\n:-1\r\n:0\r\n:10\r\n:10\r\n:0\r\n$8\r\nrequests\r\n"
)

// A body becomes the words of one command, and its reply a body.
func TestHolds(t *testing.T) {
	const decision = `{"limited":false,"limit":20,"remaining":19,"wait_ms":-1,"reset_ms":600`
	for _, c := range []struct{ path, body, reply, words, answer string }{
		{"/v1/hold", `{"key":"u","limit":"FIXED 100/d","ttl_ms":60000,"id":"r1"}`, granted, "RL.HOLD u FIXED 100/d COST 1 TTL 60000 ID r1 ONEXPIRE keep", decision + `}`},
		{"/v1/hold", `{"key":"u","limit":" fixed\t100/d","cost":40,"ttl_ms":1,"id":"r 1","on_expire":"return"}`, granted, "RL.HOLD u fixed 100/d COST 40 TTL 1 ID r 1 ONEXPIRE return", decision + `}`},
		{
			"/v1/hold", `{"namespace":"llm","fields":{"tenant":"a","tokens":"400"},"ttl_ms":60000,"id":"r1"}`, "*6\r\n:0\r\n:20\r\n:19\r\n:-1\r\n:600\r\n$1\r\nr\r\n",
			"RL.CHECK llm 2 tenant a tokens 400 COST 1 HOLD 60000 ID r1 ONEXPIRE keep", decision + `,"rule":"r"}`,
		},
		{
			"/v1/hold", `{"namespace":"llm","cost":2,"ttl_ms":5,"id":"COMMIT","on_expire":"return","explain":true}`, explained,
			"RL.CHECK llm 0 COST 2 HOLD 5 ID COMMIT ONEXPIRE return EXPLAIN", "",
		},
		{"/v1/commit", `{"key":"u","id":"r1"}`, "*5\r\n:-10\r\n:0\r\n:100\r\n:70\r\n:9\r\n", "RL.COMMIT u ID r1", `{"charged":-10,"over":0,"limit":100,"remaining":70,"reset_ms":9}`},
		{"/v1/commit", `{"key":"u","id":"r1","cost":0}`, "*5\r\n:-10\r\n:0\r\n:100\r\n:70\r\n:9\r\n", "RL.COMMIT u ID r1 COST 0", ""},
		{
			"/v1/hold", `{"namespace":"n","fields":{"user":"u"},"ttl_ms":60000,"id":"r1"}`, "*7\r\n:0\r\n:20\r\n:19\r\n:-1\r\n:600\r\n$1\r\nr\r\n$2\r\nr1\r\n",
			"RL.CHECK n 1 user u COST 1 HOLD 60000 ID r1 ONEXPIRE keep", `{"limited":false,"limit":20,"remaining":19,"wait_ms":-1,"reset_ms":600,"rule":"r","lease":"r1"}`,
		},
		{"/v1/commit", `{"namespace":"llm","id":"r1"}`, nothing, "RL.CHECK llm 0 COMMIT r1", `{"charged":0,"over":0,"limit":-1,"remaining":-1,"reset_ms":0,"rule":""}`},
		{
			"/v1/commit", `{"namespace":"llm","fields":{"tokens":"550"},"cost":2,"id":"r1"}`, settled, "RL.CHECK llm 1 tokens 550 COMMIT r1 COST 2",
			`{"charged":150,"over":50,"limit":1000,"remaining":0,"reset_ms":3600,"rule":"tokens"}`,
		},
		{"/v1/cancel", `{"key":"u","id":"r1"}`, ":4000\r\n", "RL.CANCEL u ID r1", `{"returned":4000}`},
		{"/v1/cancel", `{"namespace":"llm","fields":{"tenant":"a"},"id":"r1"}`, nothing, "RL.CHECK llm 1 tenant a CANCEL r1", `{"returned":0,"rule":""}`}, // with shard_by
		{"/v1/cancel", `{"namespace":"llm","id":"r1"}`, nothing, "RL.CHECK llm 0 CANCEL r1", `{"returned":0,"rule":""}`},
		{"/v1/cancel", `{"namespace":"llm","id":"r1"}`, "*6\r\n:9\r\n:0\r\n:10\r\n:1\r\n:5\r\n$1\r\nr\r\n", "RL.CHECK llm 0 CANCEL r1", `{"returned":0,"rule":"r"}`}, // committed before, for more
		{
			"/v1/cancel", `{"namespace":"llm","id":"r1","explain":true}`, cancelled, "RL.CHECK llm 0 CANCEL r1 EXPLAIN",
			`{"returned":1,"rule":"requests","rules":[{"rule":"tokens","charged":-400,"over":0,"limit":1000,"remaining":1000,"reset_ms":0},{"rule":"requests","charged":-1,"over":0,"limit":10,"remaining":10,"reset_ms":0}]}`,
		},
	} {
		f := &fake{reply: c.reply}
		w := f.serve("POST", c.path, c.body, jsonType)
		if got := strings.Join(f.words, " "); w.Code != 200 || got != c.words {
			t.Errorf("%s %s: %d, %q, want %q: %s", c.path, c.body, w.Code, got, c.words, w.Body)
		}
		if c.answer != "" && strings.TrimSpace(w.Body.String()) != c.answer {
			t.Errorf("%s %s: %s, want %s", c.path, c.body, w.Body, c.answer)
		}
	}
}

// What is wrong with a body is said before the server is asked.
func TestWrongHolds(t *testing.T) {
	const hold = `{"key":"u","limit":"FIXED 9/d","id":"r",`
	for _, c := range []struct{ path, body, text string }{
		{"/v1/hold", `{"limit":"FIXED 9/d","ttl_ms":5,"id":"r"}`, "either a key or a namespace"},
		{"/v1/hold", hold + `"namespace":"n","ttl_ms":5}`, "either a key or a namespace"},
		{"/v1/hold", hold + `"ttl_ms":5,"fields":{}}`, "leave them out"},
		{"/v1/hold", hold + `"ttl_ms":5,"explain":true}`, "leave them out"},
		{"/v1/hold", hold + `"on_expire":"keep"}`, "ttl_ms is missing or 0"},
		{"/v1/hold", hold + `"ttl_ms":-5}`, "ttl_ms must be a whole number"},
		{"/v1/hold", hold + `"ttl_ms":"1m"}`, "ttl_ms must be a whole number"},
		{"/v1/hold", hold + `"ttl_ms":5,"on_expire":"KEEP WAIT"}`, "on_expire is keep or return"},
		{"/v1/hold", `{"key":"u","limit":"FIXED 9/d","ttl_ms":5}`, "id is missing"},
		{"/v1/hold", `{"key":"u","ttl_ms":5,"id":"r"}`, "limit is missing"},
		{"/v1/hold", `{"key":"u","limit":"FIXED 9/d WAIT 5s","ttl_ms":5,"id":"r"}`, "limit: "},
		{"/v1/hold", `{"namespace":"n","limit":"FIXED 9/d","ttl_ms":5,"id":"r"}`, "leave limit out"},
		{"/v1/hold", `{"namespace":"n","ttl_ms":5,"id":"r","fields":{"f":"v"` + manyFields(64) + `}}`, "at most 64 fields"},
		{"/v1/hold", hold + `"ttl_ms":5,"peek":true}`, "there is no field"},
		{"/v1/commit", `{"key":"u"}`, "id is missing"},
		{"/v1/commit", `{"id":"r"}`, "either a key or a namespace"},
		{"/v1/commit", `{"key":"u","id":"r","cost":-1}`, "cost must be a whole number"},
		{"/v1/commit", `{"key":"u","id":"r","fields":{"a":"b"}}`, "leave them out"},
		{"/v1/commit", `{"key":"u","id":"r","ttl_ms":1}`, "there is no field"},
		{"/v1/cancel", `{"key":"u","id":""}`, "id is missing"},
		{"/v1/cancel", `{"key":"u","id":"r","cost":1}`, "there is no field"},
		{"/v1/cancel", `{"key":"u","id":"r","fields":{}}`, "leave them out"},
		{"/v1/cancel", `{"namespace":"n","id":"r","fields":{"f":"v"` + manyFields(64) + `}}`, "at most 64 fields"},
	} {
		f := &fake{reply: granted}
		w := f.serve("POST", c.path, c.body, jsonType)
		if w.Code != 400 || !strings.Contains(w.Body.String(), c.text) || f.words != nil {
			t.Errorf("%s %.80s: %d %s, want %q; the server was asked %q", c.path, c.body, w.Code, w.Body, c.text, f.words)
		}
	}
}

// The errors of holds have statuses of their own.
func TestErrorsOfHolds(t *testing.T) {
	for code, status := range map[string]int{"HELD": 409, "CANCELLED": 409, "NOHOLD": 404, "NORULE": 404, "NOPERM": 403, "OOM": 503} {
		for path, body := range map[string]string{
			"/v1/hold": `{"key":"u","limit":"FIXED 9/d","ttl_ms":5,"id":"r"}`, "/v1/commit": `{"namespace":"n","id":"r"}`, "/v1/cancel": `{"key":"u","id":"r"}`,
		} {
			f := &fake{reply: "-" + code + " x\r\n"}
			if w := f.serve("POST", path, body, jsonType); w.Code != status || !strings.Contains(w.Body.String(), `{"error":{"code":"`+code+`","message":"x"}}`) {
				t.Errorf("%s, %s: %d %s", path, code, w.Code, w.Body)
			}
		}
	}
}
