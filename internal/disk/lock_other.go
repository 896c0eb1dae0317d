//go:build !unix

package disk

import (
	"io"
	"os"
)

// Lock only opens the directory: this system has no locks that end with their process.
func Lock(dir string, shared bool) (io.Closer, error) { return os.Open(dir) }
