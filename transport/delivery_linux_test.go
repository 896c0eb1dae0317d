package transport

import (
	"io"
	"testing"
)

// A closing connection gets more time as long as its peer keeps reading.
func TestDeliveryGoesOn(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{}, func(f *funcs) {
			f.data = func([]byte) bool {
				f.conn.Write(make([]byte, 32<<20))
				f.conn.CloseAfterFlush(errTest)
				return true
			}
		})
		p, f := fx.dial()
		if _, err := p.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		goesOn := goesOnOf(f.conn)
		still := 0
		until(t, "the system takes no more", func() bool {
			if still++; goesOn() || f.conn.Pending() == 0 {
				still = 0
			}
			return still == 10
		})
		unsent := f.conn.Pending()
		for range 5 {
			for moved := false; !moved; moved = goesOn() {
				if _, err := io.ReadFull(p, make([]byte, 16<<10)); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("%d of %d bytes are unsent", f.conn.Pending(), unsent)
	})
}

// goesOnOf returns the function that a connection's flush deadline calls.
func goesOnOf(c Conn) func() bool {
	switch c := c.(type) {
	case *loopConn:
		return func() bool { return c.out.goesOn(c.fd) }
	case *stream:
		return c.out.goesOn
	}
	return nil
}
