package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/ringfence/ringfence/fence"
)

// problem is one row of the contract: how an error is answered.
type problem struct {
	err    error // what errors.Is finds
	status int
	kind   string // the problem's type
	title  string
	detail string // what the client is told in place of the error's own words
}

// problems is ordered by what an error that matches several rows must not hide. A lost answer comes
// first: told a verdict, the client would take it that nothing was written. A verdict comes before
// everything that invites a retry.
var problems = [...]problem{
	{
		errMisconfigured, http.StatusInternalServerError, "fence-misconfigured", "Fencing misconfigured",
		"The server can't tell which resource this route is for. Its log says why.",
	},
	{
		fence.ErrOutcomeUnknown, http.StatusInternalServerError, "fence-outcome-unknown", "Outcome unknown",
		"The write was sent and its answer was lost. It may have taken effect: look before you repeat it.",
	},
	{
		fence.ErrStale, http.StatusPreconditionFailed, "fencing-token-stale", "Stale fencing token",
		"A newer token has been admitted for this resource. This one can never succeed again.",
	},
	{
		fence.ErrDuplicate, http.StatusPreconditionFailed, "fencing-token-duplicate", "Duplicate fencing token",
		"Another holder has been admitted with this token. This holder can never succeed with it.",
	},
	{
		fence.ErrReplayed, http.StatusConflict, "fencing-token-replayed", "Replayed fencing token",
		"This token may write once, and some write under it has taken effect - not necessarily this one.",
	},
	{
		fence.ErrForged, http.StatusForbidden, "fencing-token-forged", "Forged fencing token",
		"The claim's signature is missing, wrong or expired.",
	},
	{
		fence.ErrNoClaim, http.StatusPreconditionRequired, "fencing-token-required", "Fencing token required",
		"This needs the fencing token of a lease on the resource, in the header Fencing-Token.",
	},
	{
		fence.ErrNotFound, http.StatusNotFound, "fence-not-found", "Protected row not found",
		"The row that the claim protects does not exist.",
	},
	{
		fence.ErrInvalid, http.StatusBadRequest, "fencing-token-invalid", "Invalid fencing token",
		"The claim does not fit the request.",
	},
	{
		fence.ErrUnavailable, http.StatusServiceUnavailable, "fence-unavailable", "Fence unavailable",
		"The guard could not decide, so nothing was let through. A retry may help.",
	},
}

// other answers an error that is not about fencing.
var other = problem{
	nil, http.StatusInternalServerError, "about:blank", "Internal Server Error",
	"The request failed for a reason that has nothing to do with its fencing token.",
}

// retryAfter is the Retry-After of a guard that could not decide, in seconds.
const retryAfter = "1"

func problemOf(err error) problem {
	for _, p := range problems {
		if errors.Is(err, p.err) {
			return p
		}
	}
	return other
}

// answer is the body of a problem: RFC 9457 §3.1, and the extension members where they are known.
type answer struct {
	Type     string      `json:"type"`
	Title    string      `json:"title"`
	Status   int         `json:"status"`
	Detail   string      `json:"detail"`
	Resource string      `json:"resource,omitempty"`
	Token    fence.Token `json:"token,omitempty"`
	Mark     fence.Token `json:"mark,omitempty"`
}

// WriteProblem answers r with the row of the package's contract that err is, as
// application/problem+json. Every fence error has a row: those that are the sender's fault
// ([fence.ErrNoClaim] 428, [fence.ErrInvalid] 400, [fence.ErrForged] 403, [fence.ErrNotFound] 404), the
// verdicts (412, 409), [fence.ErrUnavailable] (503 with Retry-After) and [fence.ErrOutcomeUnknown] (500).
// Any other error, nil too, is a 500.
//
// The answer shows the verdict's resource, token and mark, and of a malformed request what was wrong
// with it; never the text of another error, and never a holder. Answers of 500 and above, and claims
// that only the guard finds invalid, are logged with their error. The options of the Require that r
// came through hold here too.
//
// Call it before anything else was written to w, and write nothing after it.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error) {
	optionsFrom(r.Context()).writeProblem(w, r, fence.Claim{}, err)
}

// writeProblem is WriteProblem where the claim may be known (else it is zero).
func (o *options) writeProblem(w http.ResponseWriter, r *http.Request, c fence.Claim, err error) {
	p := problemOf(err)
	if p.err == fence.ErrStale || p.err == fence.ErrDuplicate {
		p.status = o.staleStatus
	}
	body := answer{Type: p.kind, Title: p.title, Status: p.status, Detail: p.detail, Resource: c.Resource, Token: c.Token}
	if rejected, ok := errors.AsType[*fence.RejectedError](err); ok {
		body.Resource, body.Token, body.Mark = rejected.Claim.Resource, max(rejected.Claim.Token, 0), max(rejected.Mark, 0)
	}
	if told, ok := errors.AsType[*invalidRequest](err); ok && p.err == fence.ErrInvalid {
		body.Detail = told.Error()
	}
	o.log(r, p, c, err)

	h := w.Header()
	for _, ofAnotherBody := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Retry-After"} {
		h.Del(ofAnotherBody)
	}
	if p.err == fence.ErrUnavailable {
		h.Set("Retry-After", retryAfter)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	text, _ := json.Marshal(body) // strings, and tokens that are not negative: can't fail
	w.WriteHeader(p.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the client is gone: nobody to tell
	}
}

// log writes the line of an answer that hides its error: all of 500 and above, and what the guard
// finds invalid though the request is well-formed. A guard that was
// interrupted because the client went away is nobody's fault, and only shown to who debugs.
func (o *options) log(r *http.Request, p problem, c fence.Claim, err error) {
	level := slog.LevelError
	_, told := errors.AsType[*invalidRequest](err)
	switch {
	case p.err == fence.ErrInvalid && !told: // the guard's word: a key of another spelling, or a wrong table
		level = slog.LevelWarn
	case p.status < 500:
		return
	}
	if p.err == fence.ErrUnavailable && errors.Is(r.Context().Err(), context.Canceled) {
		level = slog.LevelDebug
	}
	logger := o.logger
	if logger == nil {
		logger = slog.Default()
	}
	attrs := []slog.Attr{
		slog.String("problem", p.kind), slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.Any("error", err),
	}
	if c != (fence.Claim{}) {
		attrs = append(attrs, slog.Any("claim", c))
	}
	logger.LogAttrs(r.Context(), level, "fence: "+p.title, attrs...)
}
