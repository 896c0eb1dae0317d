package serve

import (
	"context"
	"errors"

	"limitdb/server"
)

// httpUsers are the server's users for the HTTP port.
type httpUsers struct{ *server.Server }

// Any implements observe.Users.
func (u httpUsers) Any() bool { return len(u.Users().Names()) > 1 }

// SignIn implements observe.Users.
func (u httpUsers) SignIn(ctx context.Context, name, password string) (context.Context, bool) {
	return in(ctx, u.Accounts().SignIn(name, password))
}

// Certified implements observe.Users.
func (u httpUsers) Certified(ctx context.Context, name string) (context.Context, bool) {
	return in(ctx, u.Accounts().UserOf(name))
}

func in(ctx context.Context, user *server.User) (context.Context, bool) {
	if user == nil {
		return ctx, false
	}
	return user.In(ctx), true
}

// May implements observe.Users.
func (u httpUsers) May(ctx context.Context, words ...string) error {
	if text := u.Server.May(ctx, words...); text != "" {
		return errors.New(text)
	}
	return nil
}
