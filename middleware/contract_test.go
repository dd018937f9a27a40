package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/middleware"
)

// at34 is a guard that has admitted token 34 of holder A.
func at34(t *testing.T) guard.Guard {
	t.Helper()
	g := memguard.New()
	require.NoError(t, g.Admit(t.Context(), fence.Claim{Resource: "auction/7", Token: 34, Holder: holderA}))
	return g
}

var errSecret = errors.New("dial tcp db-7.internal:5432: password is hunter2")

// TestContract is the table of the package comment, row by row.
func TestContract(t *testing.T) {
	always := func(err error) func(*testing.T) guard.Guard {
		return func(*testing.T) guard.Guard { return failingWith(err) }
	}
	valid := claimHeaders("34", holderA)
	with := func(name string, lines ...string) http.Header {
		h := claimHeaders("34", holderA)
		h[name] = lines
		return h
	}
	type members = map[string]any

	for _, row := range []struct {
		name    string
		guard   func(*testing.T) guard.Guard
		header  http.Header
		status  int
		kind    string
		members members // expected besides type, title, status, detail
	}{
		{"no token", at34, nil, 428, "fencing-token-required", nil},
		{"a holder without a token", at34, http.Header{"Fencing-Holder": {holderA.String()}}, 428, "fencing-token-required", nil},

		{"malformed", at34, claimHeaders("034", holderA), 400, "fencing-token-invalid", nil},
		{"zero", at34, claimHeaders("0", holderA), 400, "fencing-token-invalid", nil},
		{"out of range", at34, claimHeaders("9223372036854775808", holderA), 400, "fencing-token-invalid", nil},
		{"two tokens", at34, with("Fencing-Token", "34", "34"), 400, "fencing-token-invalid", nil},
		{"two holders", at34, with("Fencing-Holder", holderA.String(), holderA.String()), 400, "fencing-token-invalid", nil},
		{"two resources", at34, with("Fencing-Resource", "auction%2F7", "auction%2F7"), 400, "fencing-token-invalid", nil},
		{"two signatures", at34, with("Fencing-Signature", "k1:1:x", "k1:1:x"), 400, "fencing-token-invalid", nil},
		{"another resource", at34, with("Fencing-Resource", "auction%2F8"), 400, "fencing-token-invalid", nil},
		{"undecodable resource", at34, with("Fencing-Resource", "auction%2"), 400, "fencing-token-invalid", nil},
		{"twice encoded resource", at34, with("Fencing-Resource", "auction%252F7"), 400, "fencing-token-invalid", nil},
		{"empty resource", at34, with("Fencing-Resource", ""), 400, "fencing-token-invalid", nil},
		{"upper-case holder", at34, with("Fencing-Holder", "6F1C2A9E-0B7D-4C53-9A41-5D2E8F70B3AA"), 400, "fencing-token-invalid", nil},
		{"zero holder", at34, with("Fencing-Holder", uuid.Nil.String()), 400, "fencing-token-invalid", nil},
		{"holder in braces", at34, with("Fencing-Holder", "{"+holderA.String()+"}"), 400, "fencing-token-invalid", nil},
		{"holder without dashes", at34, with("Fencing-Holder", "6f1c2a9e0b7d4c539a415d2e8f70b3aa"), 400, "fencing-token-invalid", nil},
		{"empty holder", at34, with("Fencing-Holder", ""), 400, "fencing-token-invalid", nil},

		{"stale", at34, claimHeaders("33", holderA), 412, "fencing-token-stale", members{"resource": "auction/7", "token": "33", "mark": "34"}},
		{"duplicate", at34, claimHeaders("34", holderB), 412, "fencing-token-duplicate", members{"resource": "auction/7", "token": "34", "mark": "34"}},
		{"replayed", at34, claimHeaders("34", uuid.Nil), 409, "fencing-token-replayed", members{"resource": "auction/7", "token": "34", "mark": "34"}},
		{
			"mark unknown", always(&fence.RejectedError{Claim: fence.Claim{Resource: "auction/7", Token: 34}, Verdict: fence.ErrStale}),
			valid, 412, "fencing-token-stale",
			members{"resource": "auction/7", "token": "34"},
		},

		{"forged", always(fmt.Errorf("%w: %w", fence.ErrForged, errSecret)), valid, 403, "fencing-token-forged", members{"resource": "auction/7", "token": "34"}},
		{"no row", always(fence.ErrNotFound), valid, 404, "fence-not-found", members{"resource": "auction/7", "token": "34"}},
		{"invalid to the guard", always(fmt.Errorf("%w: %w", fence.ErrInvalid, errSecret)), valid, 400, "fencing-token-invalid", members{"resource": "auction/7", "token": "34"}},
		{"guard unreachable", always(fmt.Errorf("%w: %w", fence.ErrUnavailable, errSecret)), valid, 503, "fence-unavailable", members{"resource": "auction/7", "token": "34"}},
		{"answer lost", always(fmt.Errorf("%w: %w", fence.ErrOutcomeUnknown, errSecret)), valid, 500, "fence-outcome-unknown", members{"resource": "auction/7", "token": "34"}},
		{"no answer in time", always(fmt.Errorf("%w: %w", fence.ErrOutcomeUnknown, context.DeadlineExceeded)), valid, 503, "fence-unavailable", members{"resource": "auction/7", "token": "34"}},
		{"no answer in time, no holder", always(fmt.Errorf("%w: %w", fence.ErrOutcomeUnknown, context.DeadlineExceeded)), claimHeaders("34", uuid.Nil), 500, "fence-outcome-unknown", members{"resource": "auction/7", "token": "34"}},
		{"answer lost, store gone", always(errors.Join(fence.ErrUnavailable, fence.ErrOutcomeUnknown)), valid, 500, "fence-outcome-unknown", members{"resource": "auction/7", "token": "34"}},
		{"another error", always(errSecret), valid, 500, "about:blank", members{"resource": "auction/7", "token": "34"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSite(t, row.guard(t), nil)
			got := s.post(row.header).problem(row.status, row.kind)
			assert.NotContains(t, got["detail"], "hunter2")
			assert.Empty(t, s.handled(), "the handler must not run")
			for _, standard := range []string{"type", "title", "status", "detail"} {
				delete(got, standard)
			}
			if row.members == nil {
				row.members = members{}
			}
			assert.Equal(t, row.members, got)

			if row.status >= 500 || strings.HasPrefix(row.name, "invalid to the guard") {
				assert.Contains(t, s.log.String(), "problem="+row.kind)
				assert.NotContains(t, s.log.String(), holderA.String())
			} else {
				assert.Empty(t, s.log.String())
			}
		})
	}
}

// TestContract_Misconfigured: 500, and a log line that says how to mount it.
func TestContract_Misconfigured(t *testing.T) {
	for name, row := range map[string]struct {
		resource middleware.Resource
		says     string
	}{
		"around the mux":     {middleware.PathValue("id"), `mux.Handle(\"POST /things/{id}\", require(handler))`},
		"empty name":         {func(*http.Request) (string, error) { return "", nil }, "mount the middleware on a route that has one"},
		"empty under prefix": {middleware.Prefix("auction/", func(*http.Request) (string, error) { return "", nil }), "empty name"},
		"failing Resource":   {func(*http.Request) (string, error) { return "", errSecret }, "hunter2"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines logged
			mux := http.NewServeMux()
			mux.HandleFunc("POST /auctions/{id}/bids", func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
			fenced := middleware.Require(memguard.New(), row.resource, middleware.WithLogger(lines.logger()))
			srv := serve(t, fenced(mux))

			for _, h := range []http.Header{claimHeaders("34", holderA), claimHeaders("x", holderA), nil} {
				got := send(t, srv.Client(), "POST", srv.URL+"/auctions/7/bids", h)
				got.problem(500, "fence-misconfigured")
				assert.NotContains(t, got.body, "hunter2")
			}
			assert.Contains(t, lines.String(), "level=ERROR")
			assert.Contains(t, lines.String(), row.says)
		})
	}

	t.Run("a Resource may answer with a fence error", func(t *testing.T) {
		fenced := middleware.Require(memguard.New(), func(*http.Request) (string, error) { return "", fence.ErrNotFound })
		srv := serve(t, fenced(http.NotFoundHandler()))
		send(t, srv.Client(), "POST", srv.URL, claimHeaders("34", holderA)).problem(404, "fence-not-found")
	})
}

func TestContract_StaleStatus(t *testing.T) {
	s := newSite(t, at34(t), func(w http.ResponseWriter, r *http.Request) {
		// What a guard says at the handler's commit point is answered with the same status.
		middleware.WriteProblem(w, r, &fence.RejectedError{Verdict: fence.ErrStale})
	}, middleware.WithStaleStatus(409))
	s.post(claimHeaders("33", holderA)).problem(409, "fencing-token-stale")
	s.post(claimHeaders("34", holderB)).problem(409, "fencing-token-duplicate")
	s.post(claimHeaders("35", holderB)).problem(409, "fencing-token-stale")
	s.post(nil).problem(428, "fencing-token-required")
	s.send("GET", "/auctions/7/bids", nil).problem(409, "fencing-token-stale")

	for _, status := range []int{0, 200, 399, 408, 425, 429, 500, 503} {
		assert.Panics(t, func() { middleware.WithStaleStatus(status) }, status)
	}
}

// TestContract_SafeMethodsPass: with or without a claim, and the mark does not move.
func TestContract_SafeMethodsPass(t *testing.T) {
	g := memguard.New()
	s := newSite(t, g, nil)
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		for _, h := range []http.Header{nil, claimHeaders("99", holderA), claimHeaders("x", holderA)} {
			assert.Equal(t, 200, s.send(method, "/auctions/7/bids", h).status, method)
		}
	}
	assert.Len(t, s.handled(), 9)
	assert.NotContains(t, s.handled(), fence.Claim{Resource: "auction/7", Token: 99, Holder: holderA})
	assertMark(t, g, 0)

	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "get", "BID"} {
		s.send(method, "/auctions/7/bids", nil).problem(428, "fencing-token-required")
	}
	assert.Len(t, s.handled(), 9)
}

func TestContract_AdmittedClaimReachesTheHandler(t *testing.T) {
	for name, row := range map[string]struct {
		header http.Header
		want   fence.Claim
	}{
		"whole":          {http.Header{"Fencing-Token": {"34"}, "Fencing-Holder": {holderA.String()}, "Fencing-Resource": {"auction%2F7"}}, fence.Claim{Resource: "auction/7", Token: 34, Holder: holderA}},
		"token only":     {claimHeaders("34", uuid.Nil), fence.Claim{Resource: "auction/7", Token: 34}},
		"greatest token": {claimHeaders("9223372036854775807", holderA), fence.Claim{Resource: "auction/7", Token: 9223372036854775807, Holder: holderA}},
	} {
		t.Run(name, func(t *testing.T) {
			g := memguard.New()
			s := newSite(t, g, nil)
			assert.Equal(t, 200, s.post(row.header).status)
			assert.Equal(t, []fence.Claim{row.want}, s.handled())
			assertMark(t, g, row.want.Token)
		})
	}
}
