package envoyrls

import (
	"strings"

	"golang.org/x/net/http2/hpack"
)

// head is what the fields of a call's head say.
type head struct {
	method, scheme, path, kind, encoding, timeout, length, authorization string

	size int  // as SETTINGS_MAX_HEADER_LIST_SIZE counts
	bad  bool // malformed, as of RFC 9113
	last bool // a field that is no pseudo-header has come
	asks bool // a pseudo-header has come, so these are no trailers
}

// add notes a field.
func (h *head) add(f hpack.HeaderField) {
	h.size += int(f.Size())
	if h.size > maxHeaders || !isValue(f.Value) {
		h.bad = true
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		h.addPseudo(f)
		return
	}
	h.last = true
	switch f.Name {
	case "content-type":
		h.kind = f.Value
	case "grpc-encoding":
		h.encoding = f.Value
	case "grpc-timeout":
		h.timeout = f.Value
	case "content-length":
		h.bad = h.bad || f.Value == "" || h.length != "" && h.length != f.Value
		h.length = f.Value
	case "authorization":
		if h.authorization == "" {
			h.authorization = f.Value
		}
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		h.bad = true
	case "te":
		h.bad = h.bad || f.Value != "trailers"
	default:
		h.bad = h.bad || !isName(f.Name)
	}
}

// addPseudo notes a field whose name begins with a colon.
func (h *head) addPseudo(f hpack.HeaderField) {
	h.asks = true
	to := (*string)(nil)
	switch f.Name {
	case ":method":
		to = &h.method
	case ":scheme":
		to = &h.scheme
	case ":path":
		to = &h.path
	case ":authority":
		h.bad = h.bad || h.last
		return
	}
	if to == nil || *to != "" || f.Value == "" || h.last {
		h.bad = true
		return
	}
	*to = f.Value
}

// isName reports whether a field may have the name, as of RFC 9113.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == ':' || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return s != ""
}

// isValue reports whether a field may have the value, as of RFC 9113, 8.2.1.
func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= '\r' && (c == 0 || c == '\n' || c == '\r') {
			return false
		}
	}
	return s == "" || !isBlank(s[0]) && !isBlank(s[len(s)-1])
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// whole reports whether the head is one of a request.
func (h *head) whole() bool {
	return !h.bad && h.method != "" && h.scheme != "" && h.path != ""
}

// isGRPC reports whether the body is of gRPC.
func (h *head) isGRPC() bool {
	rest, ok := strings.CutPrefix(h.kind, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// The fields of answers, in HPACK. They are written as they are: a table that is kept for a client would cost more than it saves.
const (
	status200   = "\x88"
	statusOther = "\x08\x03" // and three digits
	grpcType    = "\x0f\x10\x10application/grpc"
	grpcStatus  = "\x00\x0bgrpc-status" // and a text
	grpcMessage = "\x00\x0cgrpc-message"
)

// answerHead is the head of an answer that has a message, and answerEnd what follows the message.
const (
	answerHead = status200 + grpcType
	answerEnd  = grpcStatus + "\x010"
)

// appendText appends a text in HPACK.
func appendText(b []byte, text string) []byte {
	n := len(text)
	if n < 127 {
		return append(append(b, byte(n)), text...)
	}
	b = append(b, 127)
	for n -= 127; n >= 128; n >>= 7 {
		b = append(b, byte(n)|128)
	}
	return append(append(b, byte(n)), text...)
}

// percent returns a text as grpc-message has it.
func percent(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
