package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// schema is the part of a JSON Schema that the file uses.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Minimum    *int64            `json:"minimum"`
	Maximum    *int64            `json:"maximum"`
	Enum       []string          `json:"enum"`
	Items      *schema           `json:"items"`
}

// openapi is the part of docs/openapi.json that the tests use.
type openapi struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name string `json:"name"`
			In   string `json:"in"`
		} `json:"parameters"`
		RequestBody struct {
			Content map[string]struct {
				Schema  schema          `json:"schema"`
				Example json.RawMessage `json:"example"`
			} `json:"content"`
		} `json:"requestBody"`
		Responses map[string]response `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas   map[string]schema   `json:"schemas"`
		Responses map[string]response `json:"responses"`
	} `json:"components"`
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema schema `json:"schema"`
	} `json:"content"`
}

func readOpenAPI(t *testing.T) (api openapi) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	return api
}

// find follows a reference.
func (o *openapi) find(s schema) schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return o.Components.Schemas[name]
	}
	return s
}

// check returns how v differs from s, or "".
func (o *openapi) check(s schema, v any) string {
	s = o.find(s)
	switch v := v.(type) {
	case map[string]any:
		if s.Type != "object" {
			return "is an object"
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				return "has no " + name
			}
		}
		for name, value := range v {
			p, ok := s.Properties[name]
			if !ok {
				return "has an unknown " + name
			}
			if d := o.check(p, value); d != "" {
				return name + " " + d
			}
		}
	case []any:
		if s.Type != "array" || s.Items == nil {
			return "is an array"
		}
		for _, value := range v {
			if d := o.check(*s.Items, value); d != "" {
				return "has an element that " + d
			}
		}
	case float64:
		if s.Type != "integer" {
			return "is a number"
		}
	case string:
		if s.Type != "string" {
			return "is a string"
		}
	case bool:
		if s.Type != "boolean" {
			return "is true or false"
		}
	default:
		return fmt.Sprintf("is a %T", v)
	}
	return ""
}

// of returns the schema of the response with a status, and whether the file has one.
func (o *openapi) of(all map[string]response, status int) (s schema, documented bool) {
	r, ok := all[strconv.Itoa(status)]
	if name, isRef := strings.CutPrefix(r.Ref, "#/components/responses/"); isRef {
		r = o.Components.Responses[name]
	}
	return r.Content["application/json"].Schema, ok
}

// TestOpenAPI holds docs/openapi.json to what the handler does: its paths, fields, parameters, statuses and
// bodies.
func TestOpenAPI(t *testing.T) {
	api := readOpenAPI(t)
	var paths []string
	for path, methods := range api.Paths {
		paths = append(paths, path)
		for method, op := range methods {
			f := &fake{reply: granted}
			base := path
			if path == "/auth" {
				base += "?limit=GCRA+1/m"
			}
			body := op.RequestBody.Content["application/json"]
			answers := map[string]string{"the example": string(body.Example), "no JSON": "x", "an empty body": ""}
			for _, p := range op.Parameters {
				if p.In == "header" { // TestIdempotencyKey
					continue
				}
				target := base + "&" + p.Name + "=" + map[string]string{"cost": "3", "denied": "403", "headers": "x", "ipv6-prefix": "56", "name": "n"}[p.Name]
				switch p.Name {
				case "limit":
					target = base
				case "ns", "fields":
					target = path + "?ns=shop&fields="
				}
				if w := f.serve(strings.ToUpper(method), target, ""); w.Code != 200 {
					t.Errorf("%s: %d %s", target, w.Code, w.Body)
				}
			}
			for what, body := range answers {
				for _, reply := range []string{granted, "*5\r\n:1\r\n:20\r\n:0\r\n:1500\r\n:60000\r\n", "-LOADING x\r\n", "-WRONGTYPE x\r\n", "-MOVED 1 a:1\r\n", "-ERR x\r\n", "-NORULE x\r\n", explained, verdicts} {
					if path == "/v1/take" && strings.HasPrefix(reply, "-NORULE") {
						continue // RL.TAKE knows no rules
					}
					f.reply = reply
					w := f.serve(strings.ToUpper(method), base, body, jsonType)
					s, ok := api.of(op.Responses, w.Code)
					if !ok {
						t.Errorf("%s %s with %s: status %d is not in the file", method, path, what, w.Code)
					}
					if w.Body.Len() == 0 {
						continue
					}
					var v any
					if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
						t.Fatal(err)
					}
					if d := api.check(s, v); d != "" {
						t.Errorf("%s %s with %s, %q: the body %s: %s", method, path, what, reply, d, w.Body)
					}
				}
			}
			for name, p := range api.find(body.Schema).Properties {
				value := map[string]string{"string": `""`, "integer": "0", "boolean": "false", "object": "{}"}[p.Type]
				if w := f.serve(http.MethodPost, path, "{"+strconv.Quote(name)+":"+value+"}", jsonType); strings.Contains(w.Body.String(), "no field") || strings.Contains(w.Body.String(), "must be") {
					t.Errorf("%s does not take %s: %s", path, name, w.Body)
				}
			}
		}
	}
	slices.Sort(paths)
	if want := []string{"/auth", "/v1/cancel", "/v1/check", "/v1/commit", "/v1/explain", "/v1/hold", "/v1/release", "/v1/take"}; !slices.Equal(paths, want) {
		t.Errorf("the file has %q, want %q", paths, want)
	}
}
