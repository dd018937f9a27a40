package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
)

// Option configures [Require].
type Option func(*options)

type options struct {
	staleStatus int
	logger      *slog.Logger // nil: slog.Default at the time of the line
}

// defaults are the settings of a WriteProblem outside Require.
var defaults = options{staleStatus: http.StatusPreconditionFailed}

func newOptions(opts []Option) *options {
	o := defaults
	for _, set := range opts {
		set(&o)
	}
	return &o
}

// WithStaleStatus sets the status of stale and duplicate claims, by default 412: 409 for clients or
// proxies that take 412 for a failed If-Match. It holds for Require and for [WriteProblem] with the
// request that the handler was given. It panics unless the status is 4xx, and if it is one that
// clients take as a request to try again: 408, 425, 429.
func WithStaleStatus(status int) Option {
	if status < 400 || status > 499 || status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests {
		panic(fmt.Sprintf("middleware: WithStaleStatus(%d): want 4xx, not 408, 425 or 429", status))
	}
	return func(o *options) { o.staleStatus = status }
}

// WithLogger sets where answers of 500 and above are logged with the error they don't show, by
// default [slog.Default]; nil logs nothing. It holds for Require and for [WriteProblem] with the
// request that the handler was given. A holder is logged as its fingerprint only.
func WithLogger(l *slog.Logger) Option {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return func(o *options) { o.logger = l }
}

type optionsKey struct{}

// optionsFrom returns the settings of the Require that r came through.
func optionsFrom(ctx context.Context) *options {
	if o, ok := ctx.Value(optionsKey{}).(*options); ok {
		return o
	}
	return &defaults
}
