package server

import "limitdb/resp"

// A reply holds the replies of commands so far, in the client's protocol. Handlers append to it
// only by its methods.
type reply struct {
	out     []byte
	proto   resp.Proto
	failed  bool // the running command has replied with an error
	reveals bool // that error depends on state
}

func (r *reply) ok()                  { r.out = resp.AppendString(r.out, "OK") }
func (r *reply) int(n int64)          { r.out = resp.AppendInt(r.out, n) }
func (r *reply) simple(text string)   { r.out = resp.AppendString(r.out, text) }
func (r *reply) bulk(b []byte)        { r.out = resp.AppendBulk(r.out, b) }
func (r *reply) text(text string)     { r.out = resp.AppendBulkString(r.out, text) }
func (r *reply) array(n int)          { r.out = resp.AppendArray(r.out, n) }
func (r *reply) mapOf(n int)          { r.out = resp.AppendMap(r.out, r.proto, n) }
func (r *reply) set(n int)            { r.out = resp.AppendSet(r.out, r.proto, n) }
func (r *reply) push(n int)           { r.out = resp.AppendPush(r.out, r.proto, n) }
func (r *reply) null()                { r.out = resp.AppendNull(r.out, r.proto) }
func (r *reply) nullArray()           { r.out = resp.AppendNullArray(r.out, r.proto) }
func (r *reply) verbatim(text string) { r.out = resp.AppendVerbatim(r.out, r.proto, "txt", text) }
func (r *reply) double(f float64)     { r.out = resp.AppendDouble(r.out, r.proto, f) }

func (r *reply) texts(list []string) {
	r.array(len(list))
	for _, t := range list {
		r.text(t)
	}
}
