package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"limitdb/observe"
)

// How long a browser stays signed in, and how many may be.
const (
	sessionTime = 12 * time.Hour
	maxSessions = 64
)

// sessions has the browsers that have signed in.
type sessions struct {
	mu  sync.Mutex // guards all
	all map[[32]byte]session
}

// session is one browser that has signed in. The key of sessions is the hash of its token.
type session struct {
	until    time.Time
	password [32]byte        // the hash of http-password, if it gave that: another one ends the session
	user     context.Context // that acts as the user whose password it gave; nil: it gave http-password
}

func (s *sessions) init() { s.all = make(map[[32]byte]session) }

// begin makes a session and returns its token. If there are too many sessions, it ends the one that would
// end first.
func (s *sessions) begin(now time.Time, password string, user context.Context) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest [32]byte
	var ends time.Time
	for id, one := range s.all {
		if !now.Before(one.until) {
			delete(s.all, id)
		} else if ends.IsZero() || one.until.Before(ends) {
			oldest, ends = id, one.until
		}
	}
	if len(s.all) >= maxSessions {
		delete(s.all, oldest)
	}
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	token := hex.EncodeToString(b[:])
	s.all[sha256.Sum256([]byte(token))] = session{now.Add(sessionTime), sha256.Sum256([]byte(password)), user}
	return token
}

// find returns the session of a token, and whether there is one that was begun with the password, or by a user.
func (s *sessions) find(now time.Time, token, password string) (one session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok = s.all[sha256.Sum256([]byte(token))]
	same := one.user != nil || password != "" && one.password == sha256.Sum256([]byte(password))
	return one, ok && now.Before(one.until) && same
}

func (s *sessions) end(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(token)))
}

// cookieName returns the name of the cookie. Browsers accept the longer one only over TLS.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Secure-limitdb"
	}
	return "limitdb"
}

// session returns the session of a request, and whether it is from a browser that has signed in.
func (d *Dashboard) session(r *http.Request) (one session, ok bool) {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return one, false
	}
	return d.sessions.find(d.Now(), c.Value, d.password())
}

// mayWrite reports whether a request is from a browser that has signed in. What it may change then, the server decides.
func (d *Dashboard) mayWrite(r *http.Request) bool {
	_, ok := d.session(r)
	return ok
}

// actsAs is the context of a request in which the server acts as a user.
type actsAs struct {
	context.Context
	user context.Context
}

// Value returns what the user's context has, and else what the request's has.
func (c actsAs) Value(key any) any {
	if v := c.user.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// as returns the request of the user who has signed in.
func (d *Dashboard) as(r *http.Request) *http.Request {
	if one, ok := d.session(r); ok && one.user != nil {
		return r.WithContext(actsAs{r.Context(), one.user})
	}
	return r
}

// mayLook refuses a request whose user may not see the figures of the server, as INFO shows them.
func (d *Dashboard) mayLook(w http.ResponseWriter, r *http.Request) bool {
	if d.Users == nil {
		return true
	}
	err := d.Users.May(r.Context(), "INFO")
	if err != nil {
		refuse(w, http.StatusForbidden, err.Error())
	}
	return err == nil
}

// signedIn lets a request pass if there is no password, or its browser has signed in.
func (d *Dashboard) signedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.guarded() && !d.mayWrite(r) {
			refuse(w, http.StatusUnauthorized, "sign in first")
			return
		}
		if r = d.as(r); d.mayLook(w, r) {
			next(w, r)
		}
	}
}

// sameOrigin reports whether a request comes from our own page. Browsers send Sec-Fetch-Site or Origin; and
// no page of another site can set a header of this name without being refused by CORS.
func sameOrigin(r *http.Request) bool {
	return http.NewCrossOriginProtection().Check(r) == nil && r.Header.Get("X-Limitdb") == "dashboard"
}

// ours lets a request of our own page pass.
func (d *Dashboard) ours(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !sameOrigin(r) {
			refuse(w, http.StatusForbidden, "the request does not come from this page")
			return
		}
		next(w, r)
	}
}

// write lets a request pass that may change something.
func (d *Dashboard) write(next http.HandlerFunc) http.HandlerFunc {
	return d.ours(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !d.guarded():
			refuse(w, http.StatusForbidden, "nothing can be changed here until http-password is set")
		case !d.mayWrite(r):
			refuse(w, http.StatusUnauthorized, "sign in first")
		default:
			next(w, d.as(r))
		}
	})
}

// signIn checks a password, that of a user if it is named, and begins a session.
func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request) {
	var q struct{ User, Password string }
	var user context.Context
	right := func(password string) (ok bool) {
		if q.User != "" && d.Users != nil {
			user, ok = d.Users.SignIn(context.Background(), q.User, q.Password)
			return ok
		}
		return password != "" && same(q.Password, password)
	}
	switch password, wait := d.password(), d.Guesses.Wait(r, d.Now()); {
	case !sameOrigin(r):
		refuse(w, http.StatusForbidden, "the request does not come from this page")
	case !d.guarded():
		refuse(w, http.StatusForbidden, "no password is set")
	case !readJSON(w, r, &q):
	case wait > 0:
		w.Header().Set("Retry-After", strconv.Itoa(wait))
		refuse(w, http.StatusTooManyRequests, observe.TooManyGuesses)
	case !right(password):
		d.Guesses.Wrong(r, d.Now())
		d.Log.Info("a wrong password for the dashboard", "addr", r.RemoteAddr)
		refuse(w, http.StatusUnauthorized, "the name or the password is wrong")
	default:
		http.SetCookie(w, &http.Cookie{
			Name: cookieName(r), Value: d.sessions.begin(d.Now(), password, user), Path: Path, MaxAge: int(sessionTime / time.Second),
			HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
		})
		answer(w, http.StatusOK, struct{}{})
	}
}

func (d *Dashboard) signOut(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil {
		d.sessions.end(c.Value)
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: Path, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	answer(w, http.StatusOK, struct{}{})
}

// same compares in a time that does not depend on the texts.
func same(given, want string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// maxBody is the most bytes of a request. The text of a rule, or the fields of a request, may be long.
const maxBody = 256 << 10

// readJSON reads a small JSON object. If it cannot, it answers and returns false.
func readJSON(w http.ResponseWriter, r *http.Request, to any) bool {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		refuse(w, http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
		return false
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not what is expected")
		return false
	}
	return true
}
