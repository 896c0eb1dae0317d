// Command compiles checks that packages and their tests compile for another platform.
//
//	compiles darwin/arm64 PACKAGE …
//
// It checks types, from source, which takes seconds. A compiler takes minutes for all that the packages import, unless it
// has compiled that for the platform before.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: compiles OS/ARCH PACKAGE …")
		os.Exit(2)
	}
	if err := check(os.Args[1], os.Args[2:]...); err != nil {
		fmt.Fprintln(os.Stderr, "compiles:", err)
		os.Exit(1)
	}
}

// check returns an error if packages, or their tests, do not compile for a platform such as darwin/arm64.
func check(platform string, patterns ...string) error {
	system, processor, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("%s is not a platform such as darwin/arm64", platform)
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax, Tests: true,
		Env: append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
	}, patterns...)
	if err != nil {
		return err
	}
	var errs []error
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}
