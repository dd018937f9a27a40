package fence

import (
	"cmp"
	"context"
	"slices"
)

type contextKey struct{}

// carried is one claim in a context, linked to those added before it.
type carried struct {
	claim   Claim
	earlier *carried
}

// NewContext returns a context that carries c beside the claims ctx carries already. One claim a
// resource: a later one for the same resource takes the place of the earlier.
func NewContext(ctx context.Context, c Claim) context.Context {
	return context.WithValue(ctx, contextKey{}, &carried{claim: c, earlier: newest(ctx)})
}

// FromContext returns the claim that was added last.
func FromContext(ctx context.Context) (Claim, bool) {
	if n := newest(ctx); n != nil {
		return n.claim, true
	}
	return Claim{}, false
}

// ForResource returns the claim that ctx carries for the resource.
func ForResource(ctx context.Context, resource string) (Claim, bool) {
	for n := newest(ctx); n != nil; n = n.earlier {
		if n.claim.Resource == resource {
			return n.claim, true
		}
	}
	return Claim{}, false
}

// Claims returns all claims that ctx carries, one a resource, sorted by resource; nil if none.
func Claims(ctx context.Context) []Claim {
	var all []Claim
	for n := newest(ctx); n != nil; n = n.earlier {
		sameResource := func(c Claim) bool { return c.Resource == n.claim.Resource }
		if !slices.ContainsFunc(all, sameResource) {
			all = append(all, n.claim)
		}
	}
	slices.SortFunc(all, func(a, b Claim) int { return cmp.Compare(a.Resource, b.Resource) })
	return all
}

func newest(ctx context.Context) *carried {
	n, _ := ctx.Value(contextKey{}).(*carried)
	return n
}
