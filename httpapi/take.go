package httpapi

import (
	"context"
	"strconv"
	"strings"

	"limitdb/resp"
)

// Decision is the answer to a request, in JSON. Times are in milliseconds, rounded up.
type Decision struct {
	// Limited is true if the request is denied.
	Limited bool `json:"limited"`
	// Limit is the most that can be taken at once.
	Limit int64 `json:"limit"`
	// Remaining is what is left now.
	Remaining int64 `json:"remaining"`
	// Wait is, after a denial, the time after which the same request would be granted, and otherwise the time
	// to wait before going ahead. -1 means that there is nothing to wait for.
	Wait int64 `json:"wait_ms"`
	// Reset is the time until the key is as if it had never been used.
	Reset int64 `json:"reset_ms"`
	// Granted is how many were taken. It is there only if the request was for a part.
	Granted *int64 `json:"granted,omitempty"`
}

// decisionOf returns the decision in the first five integers of a reply.
func decisionOf(v resp.Value) (Decision, error) {
	if len(v.Elems) < 5 {
		return Decision{}, invalid("this is no decision")
	}
	e := v.Elems
	return Decision{Limited: e[0].Int != 0, Limit: e[1].Int, Remaining: e[2].Int, Wait: e[3].Int, Reset: e[4].Int}, nil
}

// takeRequest is the body of /v1/take.
type takeRequest struct {
	key, limit    string
	cost          int64
	peek, partial bool
}

func parseTake(body []byte) (q takeRequest, err error) {
	q.cost = 1
	err = readObject(body, map[string]field{
		"key": text(&q.key), "limit": text(&q.limit), "cost": integer(&q.cost), "peek": boolean(&q.peek), "partial": boolean(&q.partial),
	})
	switch {
	case err != nil:
	case q.key == "":
		err = invalid("key is missing or empty")
	case q.limit == "":
		err = invalid("limit is missing: for example \"GCRA 100/m BURST 20\"")
	case q.peek && q.partial:
		err = invalid("a peek takes nothing, so it has no part: leave partial out")
	}
	return q, err
}

// command returns the words of RL.TAKE or RL.PEEK.
func command(name, key string, limit []string, cost int64, more ...string) [][]byte {
	words := append([]string{name, key}, limit...)
	words = append(words, "COST", strconv.FormatInt(cost, 10))
	return argsOf(append(words, more...))
}

// argsOf returns words as the arguments of a command.
func argsOf(words []string) [][]byte {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	return args
}

func (a *api) take(ctx context.Context, body []byte) (any, error) {
	q, err := parseTake(body)
	if err != nil {
		return nil, err
	}
	// The text must be a limit and nothing more, because anything after it would become an option of the
	// command.
	if _, err := a.parser().Parse(q.limit); err != nil {
		return nil, invalid("limit: %s", err)
	}
	name, more := "RL.TAKE", []string{}
	if q.peek {
		name = "RL.PEEK"
	}
	if q.partial {
		more = append(more, "PARTIAL")
	}
	if !q.peek {
		more = append(more, onceWords(ctx)...)
	}
	v, err := a.run(ctx, command(name, q.key, strings.Fields(q.limit), q.cost, more...)...)
	if err != nil {
		return nil, err
	}
	d, err := decisionOf(v)
	if q.partial && len(v.Elems) == 6 {
		d.Granted = &v.Elems[5].Int
	}
	return d, err
}
