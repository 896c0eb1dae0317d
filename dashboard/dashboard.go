// Package dashboard is the page of the HTTP port that shows what the server does now: decisions, their times,
// keys and memory, who is limited, the state of the log and of the cluster. Its files are in the binary, and
// the page loads nothing from elsewhere.
//
// Without a password, only browsers on this machine can open the page, and they can change nothing. With one, whoever
// signs in can also forget a key and change the mode of a rule. The page and its calls refuse a Host whose name they do
// not know: a page of another site can make its own name resolve to this server (DNS rebinding), and would then be of
// the same origin.
package dashboard

import (
	"context"
	"embed"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"limitdb/observe"
)

// Options configures a Dashboard. Snapshot, Ready, Do and Now must be set.
type Options struct {
	// Snapshot returns the figures of this node.
	Snapshot func() observe.Snapshot
	// Ready returns nil while the server makes decisions, and otherwise an error that says why not.
	Ready func() error
	// Do runs a command.
	Do Commands
	// Now returns the wall clock's time.
	Now func() time.Time
	// Password returns the password to sign in with, or "" for none. Nil means that there is none.
	Password func() string
	// Users are the server's users, who may sign in as well. Nil means that there are none.
	Users observe.Users
	// Hosts returns the names, besides addresses and localhost, by which browsers may open the page. Nil means
	// that there are none.
	Hosts func() []string
	// Port returns the RESP port, for the command that an empty page shows. Nil means 6379.
	Port func() int
	// Log receives what an operator should know. Nil means nowhere.
	Log *slog.Logger
	// Guesses bounds wrong passwords. Nil means bounds of its own.
	Guesses *observe.Guesses
}

// Commands runs a command, with the rights of whom ctx names, and returns its reply. All that the page shows of the node that decides, it asks by commands.
type Commands func(ctx context.Context, args ...[]byte) ([]byte, error)

// Path is where the page is.
const Path = "/dashboard/"

//go:embed assets
var assets embed.FS

// Dashboard serves the page.
type Dashboard struct {
	Options
	sessions sessions
	mux      *http.ServeMux
}

// New returns a Dashboard.
func New(o Options) *Dashboard {
	d := &Dashboard{Options: o}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Guesses == nil {
		d.Guesses = new(observe.Guesses)
	}
	d.sessions.init()
	d.mux = http.NewServeMux()
	d.mux.HandleFunc("GET "+Path+"{$}", d.asset)
	d.mux.HandleFunc("GET "+Path+"{file}", d.asset)
	d.mux.HandleFunc("GET "+Path+"api/state", d.signedIn(d.state))
	d.mux.HandleFunc("POST "+Path+"api/key", d.signedIn(d.ours(d.key)))
	d.mux.HandleFunc("POST "+Path+"api/search", d.signedIn(d.ours(d.search)))
	d.mux.HandleFunc("GET "+Path+"api/denials", d.signedIn(d.lastDenials))
	d.mux.HandleFunc("GET "+Path+"api/rules", d.signedIn(d.ruleList))
	d.mux.HandleFunc("GET "+Path+"api/rule", d.signedIn(d.rulePage))
	d.mux.HandleFunc("POST "+Path+"api/try", d.signedIn(d.ours(d.try)))
	d.mux.HandleFunc("POST "+Path+"api/signin", d.signIn)
	d.mux.HandleFunc("POST "+Path+"api/signout", d.write(d.signOut))
	d.mux.HandleFunc("POST "+Path+"api/reset", d.write(d.reset))
	d.mux.HandleFunc("POST "+Path+"api/mode", d.write(d.mode))
	d.mux.HandleFunc("POST "+Path+"api/rule/check", d.write(d.checkRule))
	d.mux.HandleFunc("POST "+Path+"api/rule/set", d.write(d.setRule))
	return d
}

// ServeHTTP serves the page and its calls.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	switch {
	case !observe.KnowsHost(r.Host, d.Hosts):
		refuse(w, http.StatusMisdirectedRequest, "this page is served under an address or localhost; to use a name, add it to http-hosts")
	case !d.guarded() && !observe.Local(r):
		refuse(w, http.StatusForbidden, "without a password, this page is for the machine that limitdb runs on: to open it from elsewhere, also from the host of a container, set a password by http-password-file (or http-password, or LIMITDB_HTTP_PASSWORD in the environment)")
	default:
		d.mux.ServeHTTP(w, r)
	}
}

func (d *Dashboard) password() string {
	if d.Password == nil {
		return ""
	}
	return d.Password()
}

// guarded reports whether there is a password to sign in with: http-password, or that of a user.
func (d *Dashboard) guarded() bool { return d.password() != "" || d.Users != nil && d.Users.Any() }

// asset serves a file of the page.
func (d *Dashboard) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	http.ServeFileFS(w, r, assets, "assets/"+name)
}

// answer sends a JSON object.
func answer(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the browser may have gone
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]string{"error": text})
}
