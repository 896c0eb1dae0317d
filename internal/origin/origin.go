// Package origin says who has sent a command, and from where.
package origin

import "context"

// DefaultUser is the name of the user that every client is at first.
const DefaultUser = "default"

// An Origin is who has sent a command. It does not change.
type Origin struct {
	User string
	Addr string // of the connection, as CLIENT LIST shows it
}

type contextKey struct{}

// With returns a context for commands of an origin.
func With(ctx context.Context, o *Origin) context.Context {
	return context.WithValue(ctx, contextKey{}, o)
}

// Of returns the origin of a context's commands, nil if it is not known.
func Of(ctx context.Context) *Origin {
	o, _ := ctx.Value(contextKey{}).(*Origin)
	return o
}
