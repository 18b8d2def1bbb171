package identity

import "context"

type contextKey struct{}

// NewContext returns a context that carries the authenticated caller.
func NewContext(ctx context.Context, id ID) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// FromContext returns the caller that the Guard authenticated; false where no Guard stood before the call.
func FromContext(ctx context.Context) (ID, bool) {
	id, ok := ctx.Value(contextKey{}).(ID)
	return id, ok
}
