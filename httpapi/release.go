package httpapi

import "context"

// ReleaseAnswer is the answer to /v1/release.
type ReleaseAnswer struct {
	// Released is how many leases were given back: 0 if their time was over, or they had been given back before.
	Released int64 `json:"released"`
}

// release gives back the leases that a check has taken.
func (a *api) release(ctx context.Context, body []byte) (any, error) {
	q, lease := checkRequest{cost: 1}, ""
	err := readObject(body, map[string]field{
		"namespace": text(&q.namespace), "lease": text(&lease),
		"fields": func(o *object, _ string) (err error) { q.fields, err = o.texts("field"); return err },
	})
	if err = q.valid(err); err == nil && lease == "" {
		err = invalid("lease is missing or empty")
	}
	if err != nil {
		return nil, err
	}
	v, err := a.run(ctx, argsOf(append(q.words(), "RELEASE", lease))...)
	if err != nil {
		return nil, err
	}
	return ReleaseAnswer{v.Int}, nil
}
