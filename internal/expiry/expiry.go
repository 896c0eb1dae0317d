// Package expiry says when certificates expire.
package expiry

import (
	"crypto/x509"
	"encoding/pem"
	"time"
)

// Of returns when the first of some certificates, in DER, expires: the zero time if none can be read.
func Of(all ...[]byte) time.Time {
	var first time.Time
	for _, der := range all {
		if c, err := x509.ParseCertificate(der); err == nil && (first.IsZero() || c.NotAfter.Before(first)) {
			first = c.NotAfter
		}
	}
	return first
}

// Decode returns the certificates in a PEM text, in DER.
func Decode(text []byte) (all [][]byte) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if block.Type == "CERTIFICATE" {
			all = append(all, block.Bytes)
		}
	}
}
