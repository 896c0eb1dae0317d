package observe

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Users are the server's users. Any goroutine may call the methods.
type Users interface {
	// Any reports whether there are users besides default.
	Any() bool
	// SignIn returns a context in which the server acts as the user with a name and a password, false if there is none.
	SignIn(ctx context.Context, name, password string) (context.Context, bool)
	// Certified returns a context in which the server acts as the user whose name a client's certificate has, false if there is none.
	Certified(ctx context.Context, name string) (context.Context, bool)
	// May returns an error if the user in a context may not run a command. Without a user that is default.
	May(ctx context.Context, words ...string) error
}

// signIn returns the request of the user whose name and password it has, or whose name is in its certificate, and whether there is one. If the
// password is wrong, it has answered: ok is false. http-password is right with any name.
func (e *endpoints) signIn(w http.ResponseWriter, r *http.Request) (as *http.Request, signed, ok bool) {
	if e.users == nil || e.open(r) || !e.users.Any() {
		return r, false, true
	}
	name, given, basic := r.BasicAuth()
	if !basic {
		return e.certified(r)
	}
	password := ""
	if e.password != nil {
		password = e.password()
	}
	now := time.Now()
	if wait := e.guesses.Wait(r, now); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(wait))
		plain(w, http.StatusTooManyRequests, TooManyGuesses)
		return r, false, false
	}
	if password != "" && knows(r, password) {
		return r, false, true
	}
	if ctx, right := e.users.SignIn(r.Context(), name, given); right {
		return r.WithContext(ctx), true, true
	}
	e.guesses.Wrong(r, now)
	challenge(w)
	return r, false, false
}

// certified is signIn for a request without a name and a password.
func (e *endpoints) certified(r *http.Request) (as *http.Request, signed, ok bool) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		if ctx, right := e.users.Certified(r.Context(), r.TLS.VerifiedChains[0][0].Subject.CommonName); right {
			return r.WithContext(ctx), true, true
		}
	}
	return r, false, true
}

// mayLook reports whether the user of a request may see the figures of the server, as INFO shows them. If not, it has answered.
func (e *endpoints) mayLook(w http.ResponseWriter, r *http.Request) bool {
	if e.users == nil || r.URL.Path != "/metrics" {
		return true
	}
	if err := e.users.May(r.Context(), "INFO"); err != nil {
		plain(w, http.StatusForbidden, err.Error())
		return false
	}
	return true
}

// challenge asks for a password.
func challenge(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Basic realm="limitdb", charset="UTF-8"`)
	plain(w, http.StatusUnauthorized, "a password is required: Basic authentication with the name and the password of a user, or http-password with any name or as a Bearer token")
}
