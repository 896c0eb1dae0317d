package server

import "limitdb/resp"

// The replies, appended to the batch. Handlers use these and nothing else.

func (s *session) ok()                  { s.out = resp.AppendString(s.out, "OK") }
func (s *session) int(n int64)          { s.out = resp.AppendInt(s.out, n) }
func (s *session) simple(text string)   { s.out = resp.AppendString(s.out, text) }
func (s *session) bulk(b []byte)        { s.out = resp.AppendBulk(s.out, b) }
func (s *session) text(text string)     { s.out = resp.AppendBulkString(s.out, text) }
func (s *session) array(n int)          { s.out = resp.AppendArray(s.out, n) }
func (s *session) mapOf(n int)          { s.out = resp.AppendMap(s.out, s.proto, n) }
func (s *session) set(n int)            { s.out = resp.AppendSet(s.out, s.proto, n) }
func (s *session) push(n int)           { s.out = resp.AppendPush(s.out, s.proto, n) }
func (s *session) null()                { s.out = resp.AppendNull(s.out, s.proto) }
func (s *session) verbatim(text string) { s.out = resp.AppendVerbatim(s.out, s.proto, "txt", text) }
func (s *session) double(f float64)     { s.out = resp.AppendDouble(s.out, s.proto, f) }

func (s *session) texts(list []string) {
	s.array(len(list))
	for _, t := range list {
		s.text(t)
	}
}

// fail replies with an error and marks the command as failed. The counters by
// prefix are what INFO errorstats shows.
func (s *session) fail(text string) {
	s.failed = true
	s.srv.errors.count(text)
	s.out = resp.AppendError(s.out, text)
}
