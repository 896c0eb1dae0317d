// Package httpapi makes decisions over HTTP: /v1/take, /v1/check, /v1/hold and others for services that speak no RESP, and /auth for reverse
// proxies that ask before they pass a request on. It turns a request into a command, which the server runs as
// it runs a client's, and the command's reply into a response. docs/http.md is its manual, and
// docs/openapi.json describes it to programs.
package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"limitdb/limit"
	"limitdb/resp"
)

// Options configures a handler. Do must be set.
type Options struct {
	// Do runs a command and returns its reply when the reply may be sent. If ctx ends before, Do returns ctx's
	// error. Any goroutine may call it.
	Do func(ctx context.Context, args ...[]byte) ([]byte, error)
	// Trusted returns the networks of the proxies that may ask /auth. Nil means that there are none.
	Trusted func() []netip.Prefix
	// Closed reports whether /v1/ serves a request with that context only if it comes from this machine. Nil means never.
	Closed func(ctx context.Context) bool
	// Log receives what an operator should know. Nil means nowhere.
	Log *slog.Logger
}

// Limits on what one request may make the server hold, and for how long.
const (
	maxBody   = 64 << 10
	maxReply  = 1 << 20
	decideFor = 10 * time.Second
)

// api answers requests. It has no state of its own but the time zones that limits have named.
type api struct {
	Options
	zones limit.Zones
}

// New returns the handler of /v1/ and /auth.
func New(o Options) http.Handler {
	a := &api{Options: o}
	if a.Log == nil {
		a.Log = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/take", a.once(a.take))
	mux.Handle("/v1/check", a.once(a.check))
	mux.Handle("/v1/release", a.post(a.release))
	mux.Handle("/v1/hold", a.post(a.hold))
	mux.Handle("/v1/commit", a.post(a.commit))
	mux.Handle("/v1/cancel", a.post(a.cancel))
	mux.Handle("/v1/explain", a.post(a.explain))
	mux.HandleFunc("/auth", a.auth)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &failure{status: http.StatusNotFound, Code: "NOTFOUND", Message: "there is no " + clip(r.URL.Path) + ": see docs/http.md"})
	})
	return mux
}

// failure is an error as a response has it.
type failure struct {
	status     int
	retryAfter string // seconds, "" for none
	leader     string // the address for clients of the node that leads, if that is the one to ask
	Code       string `json:"code"`
	Message    string `json:"message"`
}

// Error returns the message.
func (f *failure) Error() string { return f.Message }

// invalid returns the failure of a request that is wrong.
func invalid(format string, args ...any) *failure {
	return &failure{status: http.StatusBadRequest, Code: "INVALID", Message: fmt.Sprintf(format, args...)}
}

// fail answers with err.
func fail(w http.ResponseWriter, err error) {
	f := new(failure)
	if !errors.As(err, &f) {
		f = &failure{status: http.StatusInternalServerError, Code: "ERR", Message: err.Error()}
	}
	if f.retryAfter != "" {
		w.Header().Set("Retry-After", f.retryAfter)
	}
	body := map[string]any{"error": f}
	if f.leader != "" {
		body["leader"] = f.leader
	}
	send(w, f.status, body)
}

// send answers with a JSON object.
func send(w http.ResponseWriter, status int, body any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that has gone needs no answer
}

// post returns the handler of a call that takes a JSON object and returns one.
func (a *api) post(call func(ctx context.Context, body []byte) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := a.read(w, r)
		if err != nil {
			fail(w, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), decideFor)
		defer cancel()
		answer, err := call(ctx, body)
		if err != nil {
			fail(w, err)
			return
		}
		send(w, http.StatusOK, answer)
	})
}

// read returns the body of a call.
func (a *api) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if a.Closed != nil && a.Closed(r.Context()) && !peer(r).IsLoopback() {
		return nil, &failure{
			status: http.StatusForbidden, Code: "DENIED",
			Message: "in protected mode without http-password, only this machine is served: set http-password-file, or protected-mode no",
		}
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, &failure{status: http.StatusMethodNotAllowed, Code: "INVALID", Message: "use POST with a JSON object"}
	}
	// A page of another site can send a body of other types without being asked for permission.
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return nil, &failure{status: http.StatusUnsupportedMediaType, Code: "INVALID", Message: "the Content-Type must be application/json"}
	}
	var b bytes.Buffer
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	tooLarge := new(http.MaxBytesError)
	switch {
	case errors.As(err, &tooLarge):
		return nil, &failure{status: http.StatusRequestEntityTooLarge, Code: "INVALID", Message: fmt.Sprintf("the body may have %d bytes", maxBody)}
	case err != nil:
		return nil, &failure{status: http.StatusRequestTimeout, Code: "INVALID", Message: "the body did not come in time, or not whole"}
	}
	return b.Bytes(), nil
}

// peer returns the address of the connection's other end, without the zone, and an IPv4 address as such.
func peer(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}

// run runs a command and returns its reply. An error reply becomes a failure.
func (a *api) run(ctx context.Context, args ...[]byte) (resp.Value, error) {
	b, err := a.Do(ctx, args...)
	if err != nil {
		return resp.Value{}, &failure{
			status: http.StatusServiceUnavailable, retryAfter: "1", Code: "UNKNOWNOUTCOME",
			Message: "the decision was not durable in time: it may have been counted",
		}
	}
	if len(b) > maxReply { // only the list of /v1/explain may be that long
		return resp.Value{}, invalid("the answer is above %d bytes: ask for fewer rules with count", maxReply)
	}
	v, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(b)), maxReply)
	if err == nil && v.Err() != nil {
		err = failureOf(v.Text)
	}
	return v, err
}

// failureOf returns the failure for an error reply.
func failureOf(text string) *failure {
	code, message, _ := strings.Cut(text, " ")
	f := &failure{status: http.StatusBadRequest, Code: code, Message: message}
	switch code {
	case "ERR":
		switch {
		case strings.Contains(message, "shutting down"):
			f.status, f.retryAfter = http.StatusServiceUnavailable, "1"
		case strings.HasPrefix(message, "internal error"): // the same request would meet it again
			f.status = http.StatusServiceUnavailable
		}
	case "WRONGTYPE", "HELD", "CANCELLED":
		f.status = http.StatusConflict
	case "IDUSED":
		f.status = http.StatusUnprocessableEntity
	case "NOPERM":
		f.status = http.StatusForbidden
	case "NORULE", "NOHOLD":
		f.status = http.StatusNotFound
	case "MOVED":
		_, f.leader, _ = strings.Cut(message, " ")
		f.status, f.retryAfter = http.StatusServiceUnavailable, "1"
		f.Message = "this node does not lead: ask the one at " + f.leader + " (its RESP address)"
	case "OOM", "MISCONF", "LOADING", "CLUSTERDOWN", "PAUSED", "UNKNOWNOUTCOME":
		f.status, f.retryAfter = http.StatusServiceUnavailable, "1"
	}
	return f
}

// clip shortens a text of the request for an error.
func clip(s string) string { return string(resp.AppendQuoted(nil, []byte(s[:min(len(s), 64)]))) }
