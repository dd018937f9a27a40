package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

// TransportOption configures [NewTransport].
type TransportOption func(*transport)

// WithHosts names the hosts that may be sent a claim, in addition to those named before. An entry is
// a URL's host as it is written there, "api.example.com" (any port) or "api.example.com:8443" (that
// port; a URL without one has its scheme's). Upper and lower case are the same; there are no
// wildcards. Anything else panics.
func WithHosts(hosts ...string) TransportOption {
	entries := make([]host, 0, len(hosts))
	for _, h := range hosts {
		entry, err := parseHost(h)
		if err != nil {
			panic("middleware: WithHosts: " + err.Error())
		}
		entries = append(entries, entry)
	}
	return func(t *transport) { t.hosts = append(t.hosts, entries...) }
}

// NewTransport returns a transport that sends the claim of each request's context along, as the
// headers that [Require] reads, and leaves the rest to base; nil is [http.DefaultTransport]. With a
// lease, build the request with lease.Context():
//
//	client := &http.Client{Transport: middleware.NewTransport(nil, middleware.WithHosts("api.example.com"))}
//	req, err := http.NewRequestWithContext(lease.Context(), http.MethodPost, url, body)
//
// What is sent is the claim that the context carried when the request was built, never a newer one.
// Of several it is the one added last ([fence.FromContext]); choose another with [fence.NewContext].
// A request whose context carries none passes untouched, to any host.
//
// The holder is the key to a live lease. So a request that carries a claim is an error, and nothing
// is sent, if
//   - it goes to a host that [WithHosts] doesn't name - to any host at all when WithHosts is not
//     given -, be it by a redirect. An *http.Client sends the claim along on a redirect to a host
//     that is named, and fails on one to another;
//   - it goes to plain http by a redirect from https;
//   - it has a Fencing header already: which of the two is meant can't be known;
//   - the claim is not valid.
//
// Those errors wrap [fence.ErrInvalid]. If the context has ended, nothing is sent either, and the error
// is the context's cause, which for a lost lease matches lock.ErrLost. A context that ends after the
// request was sent ends the request as base does it; whether the server acted on it is not known then.
//
// The transport is safe for concurrent use and does not modify requests.
func NewTransport(base http.RoundTripper, opts ...TransportOption) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	t := &transport{base: base}
	for _, set := range opts {
		set(t)
	}
	return t
}

type transport struct {
	base  http.RoundTripper
	hosts []host
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	claim, ok := fence.FromContext(req.Context())
	if !ok {
		return t.base.RoundTrip(req)
	}
	if err := t.check(req, claim); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // RoundTrip must, also on errors; that it was not sent is what counts
		}
		return nil, err
	}

	fenced := req.WithContext(req.Context()) // a shallow copy; only its header differs
	fenced.Header = req.Header.Clone()
	if fenced.Header == nil {
		fenced.Header = make(http.Header, 3)
	}
	setHeaders(fenced.Header, claim)
	resp, err := t.base.RoundTrip(fenced)
	if resp != nil && resp.Request == fenced {
		resp.Request = req // so that who dumps a response's request does not show the holder
	}
	return resp, err
}

// check is everything that must hold before a claim leaves the process.
func (t *transport) check(req *http.Request, c fence.Claim) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("middleware: the claim in the request's context: %w", err)
	}
	for name := range req.Header {
		isFencing := func(h string) bool { return strings.EqualFold(h, name) }
		if slices.ContainsFunc(fencingHeaders[:], isFencing) {
			return fmt.Errorf("middleware: %w: the request has the header %s, and its context the claim %v: want one of the two", fence.ErrInvalid, name, c)
		}
	}
	if req.URL == nil {
		return fmt.Errorf("middleware: %w: the request has no URL", fence.ErrInvalid)
	}
	if to := hostOf(req.URL); !to.among(t.hosts) {
		return fmt.Errorf("middleware: %w: host %q for a request with the claim %v: want one of WithHosts", fence.ErrInvalid, req.URL.Host, c)
	}
	if from := req.Response; from != nil && from.Request != nil && from.Request.URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("middleware: %w: redirect from https to %s for a request with the claim %v: want https", fence.ErrInvalid, req.URL.Scheme, c)
	}
	return endedAs(req.Context(), c)
}

// endedAs is nil while ctx goes on. The error matches both ctx.Err() and the cause.
func endedAs(ctx context.Context, c fence.Claim) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	} else {
		err = cause
	}
	return fmt.Errorf("middleware: the claim %v was not sent: %w", c, err)
}

// CloseIdleConnections closes those of base, for [http.Client.CloseIdleConnections].
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
