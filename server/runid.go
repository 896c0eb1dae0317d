package server

import (
	"crypto/rand"
	"encoding/hex"
)

// newRunID is 40 random hexadecimal digits, as Redis' run_id.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
