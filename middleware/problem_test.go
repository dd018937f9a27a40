package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/middleware"
)

func written(t *testing.T, r *http.Request, err error) reply {
	t.Helper()
	w := httptest.NewRecorder()
	middleware.WriteProblem(w, r, err)
	return reply{t, w.Code, w.Header(), w.Body.String()}
}

// TestWriteProblem: without a Require around it, for every kind of error.
func TestWriteProblem(t *testing.T) {
	var lines logged
	standard := slog.Default()
	slog.SetDefault(lines.logger())
	t.Cleanup(func() { slog.SetDefault(standard) })

	stale := &fence.RejectedError{Claim: fence.Claim{Resource: "auction/7", Token: 33, Holder: holderA}, Mark: 34, Verdict: fence.ErrStale}
	for _, row := range []struct {
		err    error
		status int
		kind   string
	}{
		{fence.ErrNoClaim, 428, "fencing-token-required"},
		{fence.ErrInvalid, 400, "fencing-token-invalid"},
		{fence.ErrForged, 403, "fencing-token-forged"},
		{fence.ErrNotFound, 404, "fence-not-found"},
		{fence.ErrStale, 412, "fencing-token-stale"},
		{fmt.Errorf("placing the bid: %w", stale), 412, "fencing-token-stale"},
		{fence.ErrDuplicate, 412, "fencing-token-duplicate"},
		{fence.ErrReplayed, 409, "fencing-token-replayed"},
		{fence.ErrUnavailable, 503, "fence-unavailable"},
		{fence.ErrOutcomeUnknown, 500, "fence-outcome-unknown"},
		{fmt.Errorf("%w: %w", fence.ErrOutcomeUnknown, context.Canceled), 500, "fence-outcome-unknown"},
		// A verdict found after an answer was lost doesn't say that nothing was written.
		{errors.Join(stale, fence.ErrOutcomeUnknown), 500, "fence-outcome-unknown"},
		{errors.Join(stale, fence.ErrUnavailable, fence.ErrInvalid), 412, "fencing-token-stale"},
		{errSecret, 500, "about:blank"},
		{context.DeadlineExceeded, 500, "about:blank"}, // of the handler's own doing
		{nil, 500, "about:blank"},
	} {
		got := written(t, httptest.NewRequest("POST", "/", nil), row.err)
		got.problem(row.status, row.kind)
		assert.NotContains(t, got.body, "hunter2")
	}
	assert.Contains(t, lines.String(), "hunter2", "what the client is not told is in the log")
	for _, news := range []string{"required", "forged", "stale", "duplicate", "replayed"} {
		assert.NotContains(t, lines.String(), "problem=fencing-token-"+news, "refusals are no news")
	}
	assert.Contains(t, lines.String(), "problem=fencing-token-invalid", "a guard that finds a well-formed claim invalid may be set up wrongly")
}

func TestWriteProblem_Members(t *testing.T) {
	claim := fence.Claim{Resource: "a<b>/7", Token: 4611686018427387906, Holder: holderA}
	got := written(t, httptest.NewRequest("POST", "/", nil), &fence.RejectedError{Claim: claim, Mark: 4611686018427387907, Verdict: fence.ErrDuplicate})
	members := got.problem(412, "fencing-token-duplicate")
	assert.Equal(t, "a<b>/7", members["resource"])
	assert.Equal(t, "4611686018427387906", members["token"], "a string, as JavaScript would round the number")
	assert.Equal(t, "4611686018427387907", members["mark"])

	// What a careless guard reports is still an answer.
	odd := written(t, httptest.NewRequest("POST", "/", nil), &fence.RejectedError{Claim: fence.Claim{Token: -1}, Mark: -1, Verdict: fence.ErrStale})
	assert.NotContains(t, odd.problem(412, "fencing-token-stale"), "token")
}

// TestWriteProblem_ReplacesWhatTheHandlerPrepared: headers of the answer that was not given.
func TestWriteProblem_ReplacesWhatTheHandlerPrepared(t *testing.T) {
	w := httptest.NewRecorder()
	for name, value := range map[string]string{
		"Content-Type": "text/csv", "Content-Length": "5", "Content-Encoding": "gzip", "Etag": `"1"`, "Last-Modified": "x",
		"Retry-After": "9", "Cache-Control": "public", "X-Request-Id": "1",
	} {
		w.Header().Set(name, value)
	}
	middleware.WriteProblem(w, httptest.NewRequest("POST", "/", nil), fence.ErrStale)
	reply{t, w.Code, w.Header(), w.Body.String()}.problem(412, "fencing-token-stale")
	for _, gone := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		assert.NotContains(t, w.Header(), gone)
	}
	assert.Equal(t, "1", w.Header().Get("X-Request-Id"))
}

func TestWriteProblem_HeadHasNoBody(t *testing.T) {
	assert.Empty(t, written(t, httptest.NewRequest("HEAD", "/", nil), fence.ErrStale).body)
}
