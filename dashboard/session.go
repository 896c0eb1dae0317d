package dashboard

import (
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
	password [32]byte // the hash of the password that it gave: another one ends the session
}

func (s *sessions) init() { s.all = make(map[[32]byte]session) }

// begin makes a session and returns its token. If there are too many sessions, it ends the one that would
// end first.
func (s *sessions) begin(now time.Time, password string) string {
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
	s.all[sha256.Sum256([]byte(token))] = session{now.Add(sessionTime), sha256.Sum256([]byte(password))}
	return token
}

// valid reports whether a token belongs to a session that was begun with the password.
func (s *sessions) valid(now time.Time, token, password string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[sha256.Sum256([]byte(token))]
	return ok && now.Before(one.until) && one.password == sha256.Sum256([]byte(password))
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

// mayWrite reports whether a request is from a browser that has signed in.
func (d *Dashboard) mayWrite(r *http.Request) bool {
	password := d.password()
	c, err := r.Cookie(cookieName(r))
	return password != "" && err == nil && d.sessions.valid(d.Now(), c.Value, password)
}

// signedIn lets a request pass if there is no password, or its browser has signed in.
func (d *Dashboard) signedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.password() != "" && !d.mayWrite(r) {
			refuse(w, http.StatusUnauthorized, "sign in first")
			return
		}
		next(w, r)
	}
}

// sameOrigin reports whether a request comes from our own page. Browsers send Sec-Fetch-Site or Origin; and
// no page of another site can set a header of this name without being refused by CORS.
func sameOrigin(r *http.Request) bool {
	return http.NewCrossOriginProtection().Check(r) == nil && r.Header.Get("X-Limitdb") == "dashboard"
}

// write lets a request pass that may change something.
func (d *Dashboard) write(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !sameOrigin(r):
			refuse(w, http.StatusForbidden, "the request does not come from this page")
		case d.password() == "":
			refuse(w, http.StatusForbidden, "nothing can be changed here until http-password is set")
		case !d.mayWrite(r):
			refuse(w, http.StatusUnauthorized, "sign in first")
		default:
			next(w, r)
		}
	}
}

// signIn checks a password and begins a session.
func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request) {
	var q struct{ Password string }
	switch password, wait := d.password(), d.Guesses.Wait(r, d.Now()); {
	case !sameOrigin(r):
		refuse(w, http.StatusForbidden, "the request does not come from this page")
	case password == "":
		refuse(w, http.StatusForbidden, "no password is set")
	case !readJSON(w, r, &q):
	case wait > 0:
		w.Header().Set("Retry-After", strconv.Itoa(wait))
		refuse(w, http.StatusTooManyRequests, observe.TooManyGuesses)
	case !same(q.Password, password):
		d.Guesses.Wrong(r, d.Now())
		d.Log.Info("a wrong password for the dashboard", "addr", r.RemoteAddr)
		refuse(w, http.StatusUnauthorized, "the password is wrong")
	default:
		http.SetCookie(w, &http.Cookie{
			Name: cookieName(r), Value: d.sessions.begin(d.Now(), password), Path: Path, MaxAge: int(sessionTime / time.Second),
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

// readJSON reads a small JSON object. If it cannot, it answers and returns false.
func readJSON(w http.ResponseWriter, r *http.Request, to any) bool {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		refuse(w, http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
		return false
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not what is expected")
		return false
	}
	return true
}
