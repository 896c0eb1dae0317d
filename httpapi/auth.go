package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"limitdb/limit"
)

// auth answers a reverse proxy that asks whether to pass a request on. The proxy's configuration, in the query
// of the URL, says what is limited; headers that the proxy sets describe the request.
func (a *api) auth(w http.ResponseWriter, r *http.Request) {
	if !a.trusts(peer(r)) {
		a.Log.Warn("a peer that is not in http-trusted-proxies asked /auth", "addr", r.RemoteAddr)
		// Not 401 or 403, which proxies pass on as if the caller had been denied.
		fail(w, invalid("/auth is for reverse proxies: %s is not in http-trusted-proxies", peer(r)))
		return
	}
	q, err := a.parseAuth(r)
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), decideFor)
	defer cancel()
	d, policies, err := a.decide(ctx, &q)
	if err != nil {
		fail(w, err)
		return
	}
	setHeaders(w.Header(), policies, &d, q.xHeaders)
	if d.Limited {
		send(w, q.denied, d)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// trusts reports whether an address belongs to a proxy that may ask.
func (a *api) trusts(addr netip.Addr) bool {
	if a.Trusted == nil {
		return false
	}
	for _, net := range a.Trusted() {
		if net.Contains(addr) {
			return true
		}
	}
	return false
}

// question is a request to /auth.
type question struct {
	rules    checkRequest // of a question under rules
	name     string
	limit    limit.Limit
	words    []string // of the limit
	key      string
	cost     int64
	denied   int // the status of a denial
	xHeaders bool
}

// Names of parameters in the query.
const (
	paramNS      = "ns"
	paramFields  = "fields"
	paramLimit   = "limit"
	paramName    = "name"
	paramKey     = "key"
	paramCost    = "cost"
	paramDenied  = "denied"
	paramHeaders = "headers"
	paramPrefix  = "ipv6-prefix"
	paramHeader  = "header." // and the name of a field
)

// parseAuth reads the question from a request. An unknown parameter is an error.
func (a *api) parseAuth(r *http.Request) (q question, err error) {
	params, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, invalid("the query: %s", err)
	}
	q = question{name: "default", cost: 1, denied: http.StatusTooManyRequests}
	f := fields{api: a, r: r, prefix: 64}
	key, list := "", "ip,method,host,path"
	for name, values := range params {
		if len(values) != 1 {
			return q, invalid("%s is given twice", clip(name))
		}
		value, wrong := values[0], ""
		switch name {
		case paramNS:
			q.rules.namespace, wrong = value, oneIf(value == "", "the name of a namespace")
		case paramFields:
			list = value
		case paramLimit:
			q.words = strings.Fields(value)
			q.limit, err = a.parser().Parse(value)
		case paramName:
			q.name, wrong = value, oneIf(value == "" || len(value) > 64, "from 1 to 64 bytes")
		case paramKey:
			key = value
		case paramCost:
			q.cost, err = strconv.ParseInt(value, 10, 64)
			wrong = oneIf(err != nil || q.cost < 0, "a whole number of 0 or more")
		case paramDenied:
			q.denied, err = strconv.Atoi(value)
			wrong = oneIf(err != nil || q.denied < 400 || q.denied > 499, "a status from 400 to 499")
		case paramHeaders:
			q.xHeaders, wrong = value == "x", oneIf(value != "x", "x")
		case paramPrefix:
			f.prefix, err = strconv.Atoi(value)
			wrong = oneIf(err != nil || f.prefix < 1 || f.prefix > 128, "a number from 1 to 128")
		default:
			field, ok := strings.CutPrefix(name, paramHeader)
			if !ok || field == "" {
				return q, invalid("there is no parameter %s", clip(name))
			}
			wrong = oneIf(slices.Contains([]string{"ip", "method", "host", "path"}, field), "under another name, since "+field+" is a field already")
			f.headers = append(f.headers, [2]string{field, value})
		}
		switch {
		case wrong != "":
			return q, invalid("%s must be %s", name, wrong)
		case err != nil:
			return q, invalid("%s: %s", name, err)
		}
	}
	switch byRules := q.rules.namespace != ""; {
	case byRules && (q.words != nil || key != "" || params.Has(paramName) || params.Has(paramPrefix)):
		return q, invalid("ns asks for the server's rules, which say what is limited: leave out limit, key, name and ipv6-prefix")
	case byRules:
		q.rules.cost, q.rules.explain, f.prefix = q.cost, true, 128
		q.rules.fields, err = f.pairs(list)
	case q.words == nil:
		err = invalid("limit or ns is missing: for example limit=GCRA+100/m")
	case params.Has(paramFields):
		err = invalid("fields belongs to ns: with limit, use key")
	default:
		q.key, err = f.key(q.name, key)
	}
	return q, err
}

func oneIf(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

// decide asks the server.
func (a *api) decide(ctx context.Context, q *question) (Decision, []policy, error) {
	if q.rules.namespace != "" {
		answer, err := a.decideByRules(ctx, &q.rules)
		return answer.Decision, a.policiesOf(&answer), err
	}
	v, err := a.run(ctx, command("RL.TAKE", q.key, q.words, q.cost)...)
	if err != nil {
		return Decision{}, nil, err
	}
	d, err := decisionOf(v)
	return d, []policy{policyOf(q.name, &q.limit, &d)}, err
}

// fields finds the values of a request's fields.
type fields struct {
	*api
	r       *http.Request
	prefix  int         // bits of an IPv6 address that count
	headers [][2]string // fields that are headers: the name of the field, that of the header
}

// maxIdentity is how long a caller's identity may be before it is hashed.
const maxIdentity = 512

// key returns the key for the names and values of the listed fields. They are escaped, so two callers that differ
// never share a key, nor do callers by different fields.
func (f *fields) key(name, list string) (string, error) {
	var b strings.Builder
	for field := range strings.SplitSeq(list, ",") {
		if field == "" {
			if list == "" {
				break // one limit for all callers
			}
			return "", invalid("key must be names of fields with commas between them")
		}
		value, err := f.value(field)
		if err != nil {
			return "", err
		}
		b.WriteString(":" + url.QueryEscape(field) + "=" + url.QueryEscape(value))
	}
	identity := b.String()
	if len(identity) > maxIdentity {
		// An exclamation mark is in no escaped value.
		sum := sha256.Sum256([]byte(identity))
		identity = ":!" + hex.EncodeToString(sum[:])
	}
	return "auth:" + url.QueryEscape(name) + identity, nil
}

// pairs returns the names and values of the listed fields, and of the fields that are headers. A missing header
// gives no field, so rules that need it do not match.
func (f *fields) pairs(list string) (pairs []string, err error) {
	for field := range strings.SplitSeq(list, ",") {
		if field == "" && list == "" {
			break
		}
		value, err := f.value(field)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, field, value)
	}
	for _, h := range f.headers {
		if values := f.r.Header.Values(h[1]); len(values) > 0 {
			pairs = append(pairs, h[0], strings.Join(values, ", "))
		}
	}
	return pairs, nil
}

// value returns the value of a field. A header that is missing has the value "".
func (f *fields) value(field string) (string, error) {
	for _, h := range f.headers {
		if h[0] == field {
			v := strings.Join(f.r.Header.Values(h[1]), ", ")
			if v != "" && isCredential(h[1]) {
				sum := sha256.Sum256([]byte(v))
				v = "!" + hex.EncodeToString(sum[:])
			}
			return v, nil
		}
	}
	switch field {
	case "ip":
		a, err := f.callerIP()
		if err != nil {
			return "", err
		}
		if a.Is6() {
			net, _ := a.Prefix(f.prefix) // the prefix has been checked
			a = net.Addr()
		}
		return a.String(), nil
	case "method":
		return f.header("X-Forwarded-Method")
	case "host":
		host, err := f.header("X-Forwarded-Host")
		return strings.ToLower(host), err
	case "path":
		return f.path()
	}
	return "", invalid("there is no field %s: ip, method, host, path, or header.%[1]s=Name-Of-A-Header in the query", clip(field))
}

// isCredential reports whether a header has what a caller must keep secret. Keys are shown in many places, so they have a
// hash of it.
func isCredential(header string) bool {
	name := strings.ToLower(header)
	return slices.ContainsFunc([]string{"authorization", "cookie", "token", "secret", "password", "api-key", "apikey"}, func(s string) bool { return strings.Contains(name, s) })
}

func (f *fields) header(name string) (string, error) {
	v := f.r.Header.Get(name)
	if v == "" {
		return "", invalid("the proxy must set %s", name)
	}
	return v, nil
}

// callerIP returns the address of the caller: the last one in X-Forwarded-For that is not a trusted proxy's.
// Those before it are only what the caller says.
func (f *fields) callerIP() (netip.Addr, error) {
	list := strings.Join(f.r.Header.Values("X-Forwarded-For"), ",")
	var a netip.Addr
	for rest := list; ; {
		i := strings.LastIndexByte(rest, ',')
		text := strings.TrimSpace(rest[i+1:])
		if text == "" {
			return a, invalid("the proxy must set X-Forwarded-For to the caller's address")
		}
		var err error
		if a, err = parseIP(text); err != nil {
			return a, invalid("X-Forwarded-For: %s is no address", clip(text))
		}
		if i < 0 || !f.trusts(a) {
			return a, nil
		}
		rest = rest[:i]
	}
}

// parseIP parses an address that may have a port.
func parseIP(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		var ap netip.AddrPort
		if ap, err = netip.ParseAddrPort(s); err == nil {
			a = ap.Addr()
		}
	}
	return a.Unmap().WithZone(""), err
}

// path returns the path that the caller asked for, decoded and without empty and dot segments, as a server
// would look it up: /%61//b is /a/b.
func (f *fields) path() (string, error) {
	uri, err := f.header("X-Forwarded-Uri")
	if err != nil {
		return "", err
	}
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return "", invalid("X-Forwarded-Uri: %s is no path", clip(uri))
	}
	clean := path.Clean("/" + u.Path)
	if strings.HasSuffix(u.Path, "/") && clean != "/" {
		clean += "/"
	}
	return clean, nil
}

// parser returns a parser of limits that remembers time zones.
func (a *api) parser() *limit.Parser { return &limit.Parser{Zones: &a.zones} }
