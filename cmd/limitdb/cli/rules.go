package cli

import (
	"fmt"
	"io"
	"os"

	"limitdb/rules"
)

// ReadRules reads a file of rules; - is standard input. It returns the errors of the file system and of rules.Parse.
func ReadRules(name string) (*rules.Set, error) {
	text, err := ReadBounded(name, rules.MaxText)
	if err != nil {
		return nil, err
	}
	return rules.Parse(text, nil)
}

// ReadEnvoyRules reads a file of Envoy's rate limit service; - is standard input. It returns the errors of the file system and of rules.ParseEnvoy.
func ReadEnvoyRules(name string) (*rules.Set, error) {
	text, err := ReadBounded(name, rules.MaxText)
	if err != nil {
		return nil, err
	}
	return rules.ParseEnvoy(text)
}

// ReadBounded reads a file, but no more than one byte above most; - is standard input.
func ReadBounded(name string, most int64) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, most+1))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, fmt.Errorf("%s is a directory", name)
	}
	return io.ReadAll(io.LimitReader(f, most+1))
}
