package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
)

// Require returns middleware that admits the request's claim to g, puts it into r.Context() (see
// [fence.FromContext]) and runs the handler. Anything less than an admitted claim is answered by the
// package's contract, and the handler is not run. GET, HEAD and OPTIONS pass as they are.
//
// It is a filter: another request may overtake while the handler runs. With g.Do at the handler's
// commit point it is whole; see the package comment.
//
// The handler gets the ResponseWriter that Require was given, not a wrapped one. Require holds
// nothing while the handler runs, so one that is slow or panics keeps nobody waiting.
//
// When the request's context ends during the admission, the answer is that of a guard that could not
// decide (503), for a deadline may have ended it with the client still there. But if the admission was
// sent and the claim has no holder, its one write may be used up: the outcome is unknown (500).
//
// It panics if g, res or the handler is nil.
func Require(g guard.Guard, res Resource, opts ...Option) func(http.Handler) http.Handler {
	if g == nil {
		panic("middleware: Require: nil Guard")
	}
	f := newFencer("Require", res, opts)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("middleware: Require: nil Handler")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isSafe(r.Method) {
				next.ServeHTTP(w, r.WithContext(f.withOptions(r.Context())))
				return
			}
			claim, err := f.claim(r)
			if err == nil {
				err = g.Admit(r.Context(), claim)
			}
			if err != nil {
				f.refuse(w, r, claim, err)
				return
			}
			next.ServeHTTP(w, r.WithContext(f.context(r.Context(), claim)))
		})
	}
}

// fencer is what every fence in front of a handler does with one request: find its claim, hand it
// on, or refuse.
type fencer struct {
	resource Resource
	options  *options
}

func newFencer(of string, res Resource, opts []Option) *fencer {
	if res == nil {
		panic("middleware: " + of + ": nil Resource")
	}
	return &fencer{res, newOptions(opts)}
}

// isSafe: the methods that are not fenced. TRACE is safe by RFC 9110 §9.2.1 but has no business here.
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// claim is the claim that r makes on the resource of its route; a valid one, or an error.
func (f *fencer) claim(r *http.Request) (fence.Claim, error) {
	resource, err := f.resource(r) // first: a wrong mount is to be seen by every request
	switch {
	case err != nil && problemOf(err) == other:
		return fence.Claim{}, fmt.Errorf("%w: the Resource failed: %w", errMisconfigured, err)
	case err != nil:
		return fence.Claim{}, err
	case resource == "":
		return fence.Claim{}, fmt.Errorf("%w: the Resource returned an empty name: mount the middleware on a route that has one", errMisconfigured)
	}
	read, err := parseHeaders(r.Header)
	if err != nil {
		return fence.Claim{}, err
	}
	return read.claim(resource)
}

// context is what the handler of an admitted request gets.
func (f *fencer) context(ctx context.Context, c fence.Claim) context.Context {
	return fence.NewContext(f.withOptions(ctx), c)
}

func (f *fencer) withOptions(ctx context.Context) context.Context {
	return context.WithValue(ctx, optionsKey{}, f.options)
}

// refuse answers for the handler. An admission that ended with its context has decided nothing. That
// goes for one that was sent and not answered by then, too, if its claim has a holder: the handler has
// not run, and to be admitted twice is to be admitted once.
func (f *fencer) refuse(w http.ResponseWriter, r *http.Request, c fence.Claim, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		switch {
		case problemOf(err) == other:
			err = fmt.Errorf("%w: %w", fence.ErrUnavailable, err)
		case errors.Is(err, fence.ErrOutcomeUnknown) && c.Holder != uuid.Nil:
			err = fmt.Errorf("%w: %v", fence.ErrUnavailable, err)
		}
	}
	f.options.writeProblem(w, r, c, err)
}
