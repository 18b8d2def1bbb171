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

type podKey struct{}

// NewPodContext returns a context that carries the pod which the caller's token is bound to; the zero Pod adds nothing.
func NewPodContext(ctx context.Context, pod Pod) context.Context {
	if pod == (Pod{}) {
		return ctx
	}
	return context.WithValue(ctx, podKey{}, pod)
}

// PodFromContext returns the pod that the caller's token is bound to; the zero Pod where it proved none, as callers
// with a certificate do.
func PodFromContext(ctx context.Context) Pod {
	pod, _ := ctx.Value(podKey{}).(Pod)
	return pod
}
