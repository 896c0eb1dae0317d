package server

import (
	"crypto/rand"
	"encoding/hex"
)

// newRunID returns 40 random hexadecimal digits, as in Redis' run_id.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
