package replication

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
)

// errNoValue is the error for a value that was never set. Raft compares its text.
var errNoValue = errors.New("not found")

// votes is what Raft must not forget beside its log: the term, and for whom the node has voted in it. It is a small file that is written
// anew for each change.
type votes struct {
	path string

	mu     sync.Mutex
	values map[string][]byte // replaced, never changed
}

// storedVotes is what the file has, as JSON.
type storedVotes struct {
	Format int
	Values map[string][]byte
	CRC    uint32 // CRC32C of Values, as JSON
}

// openVotes reads the file; without one, no value is set.
func openVotes(path string) (*votes, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return &votes{path: path}, nil
	}
	if err != nil {
		return nil, err
	}
	var v storedVotes
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errLog, path, err)
	}
	if v.Format > fileFormat {
		return nil, fmt.Errorf("%w: %s", ErrNewer, path)
	}
	if sum, err := jsonSum(v.Values); err != nil || sum != v.CRC {
		return nil, fmt.Errorf("%w: %s", errLog, path)
	}
	return &votes{path: path, values: v.Values}, nil
}

// Set stores a value. When it returns nil, that is durable.
func (v *votes) Set(key, value []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	values := maps.Clone(v.values)
	if values == nil {
		values = map[string][]byte{}
	}
	values[string(key)] = value
	sum, err := jsonSum(values)
	if err != nil {
		return err
	}
	b, err := json.Marshal(storedVotes{Format: fileFormat, Values: values, CRC: sum})
	if err == nil {
		err = replaceFile(v.path, b)
	}
	if err == nil {
		v.values = values
	}
	return err
}

// Get returns a value, or errNoValue.
func (v *votes) Get(key []byte) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, ok := v.values[string(key)]
	if !ok {
		return nil, errNoValue
	}
	return value, nil
}

// SetUint64 stores a number.
func (v *votes) SetUint64(key []byte, n uint64) error {
	return v.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 returns a number, 0 if it was never set.
func (v *votes) GetUint64(key []byte) (uint64, error) {
	b, err := v.Get(key)
	if err != nil {
		return 0, nil
	}
	return binary.BigEndian.Uint64(b), nil
}
