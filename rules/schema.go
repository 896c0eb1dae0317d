package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Schema returns the JSON Schema of a file, so that editors can complete and check it. It follows the
// tables in fields.go. Parse checks more than a schema can.
func Schema() []byte {
	tree := &treeReader{}
	defs := map[string]any{
		"defaults":   schemaOf(defaultsRows()),
		"namespace":  schemaOf(namespaceRows()),
		"rule":       schemaOf(ruleRows()),
		"group":      schemaOf(groupRows()),
		"plan":       schemaOf(planRows()),
		"block":      schemaOf(blockRows()),
		"override":   schemaOf(overrideRows()),
		"tree":       schemaOf(tree.domainRows()),
		"descriptor": schemaOf(tree.descriptorRows()),
		"rate_limit": schemaOf(rateRows()),
	}
	file := schemaOf(fileRows())
	file["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	file["title"] = "Rules of limitdb"
	file["$defs"] = defs
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(file); err != nil {
		panic(fmt.Sprintf("rules: the schema of a table is no JSON: %v", err)) // a test calls this
	}
	return out.Bytes()
}

// schemaOf returns the schema of the objects that a table describes.
func schemaOf[T any](rows []row[T]) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, r := range rows {
		var field map[string]any
		if err := json.Unmarshal([]byte(r.schema), &field); err != nil {
			panic(fmt.Sprintf("rules: the schema of %s is no JSON: %v", r.name, err))
		}
		field["description"] = r.doc
		properties[r.name] = field
		if r.required {
			required = append(required, r.name)
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
