package httpapi

import (
	"context"
	"net/http"
	"strings"
)

// maxID is the most bytes of an id, as for ONCE.
const maxID = 128

// idName is the context key of the id by which a request counts once.
type idName struct{}

// once is post for a call that counts once if it has the header field Idempotency-Key, as in
// draft-ietf-httpapi-idempotency-key-header-07.
func (a *api) once(call func(ctx context.Context, body []byte) (any, error)) http.Handler {
	next := a.post(call)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if all, given := r.Header["Idempotency-Key"]; given {
			id, err := readID(all)
			if err != nil {
				fail(w, err)
				return
			}
			r = r.WithContext(context.WithValue(r.Context(), idName{}, id))
		}
		next.ServeHTTP(w, r)
	})
}

// readID reads an Idempotency-Key, which is a string in the form of RFC 9651.
func readID(all []string) (id string, err error) {
	if len(all) > 1 {
		return "", invalid("Idempotency-Key is given %d times", len(all))
	}
	text := strings.Trim(all[0], " ")
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return "", invalid("Idempotency-Key must be in quotation marks: \"7f3c9d20\", not %s", clip(text))
	}
	text = text[1 : len(text)-1]
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			if i++; i == len(text) || text[i] != '\\' && text[i] != '"' {
				return "", invalid(`Idempotency-Key: a \ must be before a " or a \`)
			}
		} else if text[i] == '"' || text[i] < ' ' || text[i] > '~' {
			return "", invalid("Idempotency-Key may have printable ASCII characters only, and a \\ before a \": byte %d is %s", i+1, clip(text[i:i+1]))
		}
		b.WriteByte(text[i])
	}
	if b.Len() == 0 || b.Len() > maxID {
		return "", invalid("Idempotency-Key must have 1 to %d characters", maxID)
	}
	return b.String(), nil
}

// onceWords returns the words that have a command count once; none if the request has no id.
func onceWords(ctx context.Context) []string {
	if id, ok := ctx.Value(idName{}).(string); ok {
		return []string{"ONCE", id}
	}
	return nil
}
