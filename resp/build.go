package resp

import "fmt"

// A Reply holds replies in one version of the protocol. Its methods append to it.
type Reply struct {
	Out   []byte
	Proto Proto
}

// OK appends the simple string OK.
func (r *Reply) OK() { r.Out = AppendString(r.Out, "OK") }

// Int appends an integer.
func (r *Reply) Int(n int64) { r.Out = AppendInt(r.Out, n) }

// Bit appends 1 if b is true, and 0 if not.
func (r *Reply) Bit(b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	r.Int(n)
}

// Simple appends a simple string, which must have no line break.
func (r *Reply) Simple(text string) { r.Out = AppendString(r.Out, text) }

// Bulk appends bytes.
func (r *Reply) Bulk(b []byte) { r.Out = AppendBulk(r.Out, b) }

// Text appends a text as bytes.
func (r *Reply) Text(text string) { r.Out = AppendBulkString(r.Out, text) }

// Texts appends an array of texts.
func (r *Reply) Texts(list []string) {
	r.Array(len(list))
	for _, t := range list {
		r.Text(t)
	}
}

// TextSet appends a set of texts.
func (r *Reply) TextSet(list []string) {
	r.Set(len(list))
	for _, t := range list {
		r.Text(t)
	}
}

// Array appends the header of an array, which n replies follow.
func (r *Reply) Array(n int) { r.Out = AppendArray(r.Out, n) }

// Map appends the header of a map, which n pairs of replies follow.
func (r *Reply) Map(n int) { r.Out = AppendMap(r.Out, r.Proto, n) }

// Fields appends a map of names and what they name: a text, a list of texts, a number, or what a function appends.
func (r *Reply) Fields(pairs ...any) {
	r.Map(len(pairs) / 2)
	for _, v := range pairs {
		switch v := v.(type) {
		case string:
			r.Text(v)
		case []string:
			r.Texts(v)
		case int:
			r.Int(int64(v))
		case int64:
			r.Int(v)
		case uint64:
			r.Int(int64(v))
		case float64:
			r.Double(v)
		case func():
			v()
		default:
			panic(fmt.Sprintf("resp: no reply of type %T", v))
		}
	}
}

// Set appends the header of a set, which n replies follow.
func (r *Reply) Set(n int) { r.Out = AppendSet(r.Out, r.Proto, n) }

// Push appends the header of a message that answers no command, which n replies follow.
func (r *Reply) Push(n int) { r.Out = AppendPush(r.Out, r.Proto, n) }

// Null appends a null.
func (r *Reply) Null() { r.Out = AppendNull(r.Out, r.Proto) }

// NullArray appends the null that stands for an array.
func (r *Reply) NullArray() { r.Out = AppendNullArray(r.Out, r.Proto) }

// Verbatim appends a text that clients show as it is.
func (r *Reply) Verbatim(text string) { r.Out = AppendVerbatim(r.Out, r.Proto, "txt", text) }

// Double appends a floating-point number.
func (r *Reply) Double(f float64) { r.Out = AppendDouble(r.Out, r.Proto, f) }
