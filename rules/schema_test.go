package rules

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the generated file")

const schemaFile = "../docs/rules.schema.json"

// TestGeneratedSchema keeps the JSON Schema in docs as the tables say.
func TestGeneratedSchema(t *testing.T) {
	if *update {
		if err := os.WriteFile(schemaFile, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, Schema()) {
		t.Errorf("%s is not what the tables say: run scripts/docs", schemaFile)
	}
	if !json.Valid(got) {
		t.Error("the schema is no JSON")
	}
}
