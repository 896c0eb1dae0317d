package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"limitdb/resp"
)

// maxReply is the most bytes of a reply: the counters of 50 000 rules have 25 MB.
const maxReply = 64 << 20

// errLate is returned if the answer does not come in the time of the request.
var errLate = errors.New("the node that decides has not answered in time")

// ask runs a command and returns its reply. An error reply is an error, without its ERR.
func (do Commands) ask(ctx context.Context, words ...string) (resp.Value, error) {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	b, err := do(ctx, args...)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errLate
	}
	if err != nil {
		return resp.Value{}, err
	}
	v, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(b)), maxReply)
	if err == nil && v.Err() != nil {
		err = errors.New(strings.TrimPrefix(v.Text, "ERR "))
	}
	return v, err
}

// fields are the pairs of a reply that is a map.
type fields map[string]resp.Value

// fieldsOf returns the pairs of a reply, none if it is no map.
func fieldsOf(v resp.Value) fields {
	f := fields{}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		f[v.Elems[i].Text] = v.Elems[i+1]
	}
	return f
}

func (f fields) text(name string) string { return f[name].Text }
func (f fields) int(name string) int64   { return f[name].Int }

// texts returns the elements of a list.
func texts(v resp.Value) []string {
	all := make([]string, len(v.Elems))
	for i, e := range v.Elems {
		all[i] = e.Text
	}
	return all
}

// micros returns ns in µs.
func micros(ns int64) float64 { return float64(ns) / 1000 }

// idOf returns a key as a word that has all its bytes.
func idOf(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// keyOf returns the key that a word of idOf names.
func keyOf(id string) (string, bool) {
	b, err := base64.RawURLEncoding.DecodeString(id)
	return string(b), err == nil && len(b) > 0
}

// decimal returns a number as a word.
func decimal(n int64) string { return strconv.FormatInt(n, 10) }
