package expiry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// The first certificate to expire counts; what is no certificate does not.
func TestOf(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, days := range []int{50, 20, 30} {
		c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(int64(days)*86400, 0)}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte("x")})...)
	if got := Of(Decode(text)...); !got.Equal(time.Unix(20*86400, 0)) {
		t.Error(got)
	}
	if got := Of([]byte("x")); !got.IsZero() || len(Decode([]byte("x"))) != 0 {
		t.Error(got)
	}
}
