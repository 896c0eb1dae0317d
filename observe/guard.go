package observe

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// The guard of /metrics and /v1/, and of /auth. Whoever may ask for them without a password does so by reaching the port. A web page
// must not do so through the browser that shows it, nor a stranger through a proxy on this machine:
// - a page of another site, which browsers mark (Sec-Fetch-Site, Origin);
// - a page whose own name resolves to this server (DNS rebinding), which is of the same origin to the browser: its Host gives it away;
// - a request that a proxy on this machine passes on: it comes from a loopback address, but not from this machine.

// guarded reports whether the guard is before a page.
func guarded(path string) bool { return path == "/metrics" || strings.HasPrefix(path, "/v1/") }

// guard returns the status and the reason of the refusal of a request, 0 if it may pass.
// signed says that the request has the password of a user.
func (e *endpoints) guard(r *http.Request, signed bool) (status int, reason string) {
	here := loopbackHost(r.RemoteAddr)
	switch {
	case crossSite(r):
		return http.StatusForbidden, "a page of another site may not ask this server"
	case signed, e.password != nil && e.password() != "":
		return 0, "" // no page and no stranger has it
	case (here || byBrowser(r)) && !KnowsHost(r.Host, e.hosts):
		return http.StatusMisdirectedRequest, "without a password, this is served under an address or localhost: to use a name, add it to http-hosts, or set http-password-file"
	case here && e.protected != nil && e.protected() && forwarded(r):
		return http.StatusForbidden, "a proxy on this machine has passed this on: in protected mode that needs a password, so set http-password-file, or protected-mode no"
	}
	return 0, ""
}

// guardAuth is guard for /auth, which proxies ask with their callers' headers and no password: what a browser says may be a caller's.
// So it looks at the host only, and only if the operator has said under which names the proxies ask.
func (e *endpoints) guardAuth(r *http.Request) (status int, reason string) {
	if e.authHosts == nil || len(e.authHosts()) == 0 || KnowsHost(r.Host, e.authHosts) {
		return 0, ""
	}
	return http.StatusMisdirectedRequest, "while http-hosts has names, /auth is served under these, an address or localhost: have the proxy send such a Host, or add its name to http-hosts"
}

// passes reports whether the guard lets a request pass. If not, it has answered.
func (e *endpoints) passes(w http.ResponseWriter, r *http.Request, signed bool) bool {
	status, reason := 0, ""
	switch {
	case guarded(r.URL.Path):
		status, reason = e.guard(r, signed)
	case r.URL.Path == "/auth":
		status, reason = e.guardAuth(r)
	}
	switch {
	case status == 0:
		return true
	case r.URL.Path == "/metrics":
		plain(w, status, reason)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": "DENIED", "message": reason}}) // the client may have gone
	}
	return false
}

// crossSite reports whether a browser says that a page of another site makes the request. Somebody who follows a link
// to a page does no harm.
func crossSite(r *http.Request) bool {
	h := r.Header
	switch h.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		origin := h.Get("Origin")
		u, err := url.Parse(origin)
		return origin != "" && (err != nil || u.Host != r.Host)
	}
	return r.Method != http.MethodGet || h.Get("Sec-Fetch-Mode") != "navigate" || h.Get("Sec-Fetch-Dest") != "document"
}

// byBrowser reports whether a browser may have made the request. Pages cannot remove these header fields; but Node.js sends
// Accept-Language, too, so it counts only where browsers send no Origin.
func byBrowser(r *http.Request) bool {
	has := func(name string) bool { return len(r.Header.Values(name)) > 0 }
	return has("Origin") || has("Sec-Fetch-Site") || r.Method == http.MethodGet && has("Accept-Language")
}

// forwarded reports whether a proxy says that it passes the request on.
func forwarded(r *http.Request) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}, func(name string) bool {
		return len(r.Header.Values(name)) > 0
	})
}

// KnowsHost reports whether the Host of a request is an address, localhost, or one of the names. A page that makes its
// own name resolve to this server has another one. Names may be nil.
func KnowsHost(hostPort string, names func() []string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
	}
	if _, err := netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return true
	}
	return names != nil && slices.ContainsFunc(names(), func(n string) bool { return strings.EqualFold(n, host) })
}
