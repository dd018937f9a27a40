package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/middleware"
)

func TestM03_AFailedHandlerDoesNotUseTheTokenUp(t *testing.T) {
	fail := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

	t.Run("with a holder", func(t *testing.T) {
		s := newSite(t, memguard.New(), fail)
		assert.Equal(t, 500, s.post(claimHeaders("34", holderA)).status)
		assert.Equal(t, 500, s.post(claimHeaders("34", holderA)).status)
		assert.Len(t, s.handled(), 2)
		s.post(claimHeaders("34", holderB)).problem(412, "fencing-token-duplicate")
	})
	t.Run("without one the admission was its one use", func(t *testing.T) {
		s := newSite(t, memguard.New(), fail)
		assert.Equal(t, 500, s.post(claimHeaders("34", uuid.Nil)).status)
		s.post(claimHeaders("34", uuid.Nil)).problem(409, "fencing-token-replayed")
		assert.Len(t, s.handled(), 1)
	})
	t.Run("nor does a mark that could not be stored", func(t *testing.T) {
		g, down := memguard.New(), true
		s := newSite(t, guardFunc(func(ctx context.Context, c fence.Claim) error {
			if down {
				down = false
				return fence.ErrUnavailable
			}
			return g.Admit(ctx, c)
		}), nil)
		s.post(claimHeaders("34", holderA)).problem(503, "fence-unavailable")
		assert.Equal(t, 200, s.post(claimHeaders("34", holderA)).status)
	})
}

func TestC44_ADefinitiveRefusalIsNeverRetryable(t *testing.T) {
	for _, verdict := range []error{fence.ErrStale, fence.ErrDuplicate, fence.ErrReplayed} {
		rejected := &fence.RejectedError{Claim: fence.Claim{Resource: "auction/7", Token: 33}, Mark: 34, Verdict: verdict}
		for _, err := range []error{
			verdict, rejected, fmt.Errorf("bid: %w", rejected),
			errors.Join(fence.ErrUnavailable, rejected), errors.Join(context.DeadlineExceeded, rejected),
		} {
			tries := 0
			s := newSite(t, guardFunc(func(context.Context, fence.Claim) error { tries++; return err }), nil)
			got := s.post(claimHeaders("33", holderA))
			assert.Contains(t, []int{409, 412}, got.status, err)
			assert.NotContains(t, got.header, "Retry-After")
			assert.Equal(t, 1, tries, "exactly one attempt")
		}
	}
}

func TestC48_DuplicateTokenLines(t *testing.T) {
	for _, lines := range [][]string{{"33", "99"}, {"33", "33"}, {"33, 99"}, {"33,33"}, {"33", ""}} {
		g := memguard.New()
		s := newSite(t, g, nil)
		s.post(http.Header{"Fencing-Token": lines}).problem(400, "fencing-token-invalid")
		// In another spelling it is still the same header.
		s.post(http.Header{"fencing-token": lines}).problem(400, "fencing-token-invalid")
		assert.Empty(t, s.handled())
		assertMark(t, g, 0)
	}
}

func TestC49_LaxIntegers(t *testing.T) {
	for _, token := range []string{
		"+5", "-0", "-5", "007", "0", "0x10", "1_000", "1e3", "5.0", "９", "", "33 99", `"33"`, `"33 "`, "33;q=1",
		"18446744073709551616", "9223372036854775808", "99999999999999999999999999999999999999999999999999",
	} {
		g := memguard.New()
		s := newSite(t, g, nil)
		s.post(claimHeaders(token, holderA)).problem(400, "fencing-token-invalid")
		assert.Empty(t, s.handled(), token)
		assertMark(t, g, 0)
	}
}

// What net/http trims off the wire can't be tested with a server.
func TestC49_SpacesInsideTheValue(t *testing.T) {
	for _, token := range []string{" 33", "33 ", "33\t", "3 3", "33\n"} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header["Fencing-Token"] = []string{token}
		w := httptest.NewRecorder()
		middleware.Require(memguard.New(), middleware.Const("auction/7"))(http.NotFoundHandler()).ServeHTTP(w, r)
		assert.Equal(t, 400, w.Code, "%q", token)
	}
}

func TestC50_AStrippedTokenFailsClosed(t *testing.T) {
	g := memguard.New()
	s := newSite(t, g, nil)
	target, err := url.Parse(s.URL)
	require.NoError(t, err)
	proxy := serve(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	through := func(h http.Header) reply {
		return send(t, proxy.Client(), "POST", proxy.URL+"/auctions/7/bids", h)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)

	stripped := claimHeaders("34", holderA)
	stripped.Set("Connection", "Fencing-Token")
	through(stripped).problem(428, "fencing-token-required")
	through(http.Header{"Fencing_Token": {"99"}}).problem(428, "fencing-token-required")
	s.post(http.Header{"Fencing_Token": {"99"}}).problem(428, "fencing-token-required")
	assert.Empty(t, s.handled())
	assertMark(t, g, 0)

	underscored := claimHeaders("34", holderA)
	underscored["Fencing_Token"] = []string{"99"}
	assert.Equal(t, 200, through(underscored).status)
	assert.Equal(t, fence.Token(34), s.handled()[0].Token)
}

// TestC51_AnOvertakenHandlerIsRefusedAtItsCommit: Require alone has let 33 in; the guard at the commit
// point keeps its late write out.
func TestC51_AnOvertakenHandlerIsRefusedAtItsCommit(t *testing.T) {
	for _, timedOut := range []bool{false, true} {
		t.Run(fmt.Sprintf("timedOut=%t", timedOut), func(t *testing.T) {
			g := memguard.New()
			var value fence.Token // what the guard protects
			admitted, goOn, verdict := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			bid := func(w http.ResponseWriter, r *http.Request) {
				claim, _ := fence.FromContext(r.Context())
				if claim.Token == 33 {
					close(admitted)
					<-goOn
				}
				// The write of a handler whose client has been answered still happens.
				err := g.Do(context.WithoutCancel(r.Context()), claim, func(context.Context) error {
					value = claim.Token
					return nil
				})
				if claim.Token == 33 {
					verdict <- err
				}
				if err != nil {
					middleware.WriteProblem(w, r, err)
				}
			}
			// The timeout may come before the handler runs; here it must not keep 33 out.
			patient := guardFunc(func(ctx context.Context, c fence.Claim) error { return g.Admit(context.WithoutCancel(ctx), c) })
			fenced := middleware.Require(patient, middleware.Const("auction/7"))(http.HandlerFunc(bid))
			slow := fenced
			if timedOut {
				slow = http.TimeoutHandler(fenced, time.Millisecond, "too slow")
			}
			mux := http.NewServeMux()
			mux.Handle("POST /slow", slow)
			mux.Handle("POST /", fenced)
			srv := serve(t, mux)

			late := make(chan reply, 1)
			go func() {
				got, err := trySend(t, srv.Client(), "POST", srv.URL+"/slow", claimHeaders("33", holderA))
				assert.NoError(t, err)
				late <- got
			}()
			<-admitted
			if timedOut {
				assert.Equal(t, 503, (<-late).status)
			}
			assert.Equal(t, 200, send(t, srv.Client(), "POST", srv.URL+"/", claimHeaders("34", holderB)).status)
			close(goOn)

			require.ErrorIs(t, <-verdict, fence.ErrStale)
			if !timedOut {
				(<-late).problem(412, "fencing-token-stale")
			}
			assert.Equal(t, fence.Token(34), value)
		})
	}
}

func TestC53_NoMarkNoHandler(t *testing.T) {
	s := newSite(t, failingWith(fence.ErrUnavailable), nil)
	s.post(claimHeaders("34", holderA)).problem(503, "fence-unavailable")
	assert.Empty(t, s.handled())

	failing := newSite(t, memguard.New(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	for range 2 {
		assert.Equal(t, 500, failing.post(claimHeaders("34", holderA)).status)
	}
	assert.Len(t, failing.handled(), 2, "a retry with 34 reaches the handler")
}

func TestC54_APanicHoldsNothing(t *testing.T) {
	s := newSite(t, memguard.New(), func(http.ResponseWriter, *http.Request) { panic("handler") })
	_, err := trySend(t, s.Client(), "POST", s.URL+"/auctions/7/bids", claimHeaders("34", holderA))
	require.Error(t, err, "net/http cuts the connection")

	s.Client().Timeout = time.Second
	s.post(claimHeaders("33", holderA)).problem(412, "fencing-token-stale")
	_, err = trySend(t, s.Client(), "POST", s.URL+"/auctions/7/bids", claimHeaders("34", holderA))
	require.Error(t, err)
	assert.Len(t, s.handled(), 2, "M03: nor does it use the token up")
}

// TestRequire_ContextEndsDuringAdmit: nothing was decided, so it is 503 and the handler does not run.
// A client that went away is not worth an error in the log; a deadline is.
func TestRequire_ContextEndsDuringAdmit(t *testing.T) {
	for name, row := range map[string]struct {
		end   func(context.Context) (context.Context, context.CancelFunc)
		level string
	}{
		"client gone": {context.WithCancel, "DEBUG"},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Microsecond)
		}, "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := row.end(t.Context())
			defer cancel()
			var lines logged
			wait := guardFunc(func(ctx context.Context, _ fence.Claim) error {
				if name == "client gone" {
					cancel()
				}
				<-ctx.Done()
				return fmt.Errorf("waiting for the mark: %w", ctx.Err())
			})
			fenced := middleware.Require(wait, middleware.Const("auction/7"), middleware.WithLogger(lines.logger()))
			r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
			r.Header = claimHeaders("34", holderA)
			w := httptest.NewRecorder()
			fenced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })).ServeHTTP(w, r)

			reply{t, w.Code, w.Header(), w.Body.String()}.problem(503, "fence-unavailable")
			assert.Contains(t, lines.String(), "level="+row.level)
		})
	}
}

// TestRequire_NeverWrapsTheResponseWriter: what the server's writer can do, the handler can use.
func TestRequire_NeverWrapsTheResponseWriter(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		w := httptest.NewRecorder()
		ran := false
		next := http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
			ran = true
			assert.Same(t, w, got)
		})
		r := httptest.NewRequest(method, "/", nil)
		r.Header = claimHeaders("34", holderA)
		middleware.Require(memguard.New(), middleware.Const("auction/7"))(next).ServeHTTP(w, r)
		assert.True(t, ran)
	}
}

func TestRequire_NilPanicsAtConstruction(t *testing.T) {
	assert.PanicsWithValue(t, "middleware: Require: nil Guard", func() { middleware.Require(nil, middleware.Const("x")) })
	assert.PanicsWithValue(t, "middleware: Require: nil Resource", func() { middleware.Require(memguard.New(), nil) })
	assert.PanicsWithValue(t, "middleware: Require: nil Handler", func() { middleware.Require(memguard.New(), middleware.Const("x"))(nil) })
}

// TestRequire_ClaimForAnotherRouteIsRefused: a client that sends its resource along is protected from its own mix-ups.
func TestRequire_ClaimForAnotherRouteIsRefused(t *testing.T) {
	g := memguard.New()
	s := newSite(t, g, nil)
	h := claimHeaders("34", holderA)
	h.Set("Fencing-Resource", "auction%2F7")
	got := s.send("POST", "/auctions/8/bids", h).problem(400, "fencing-token-invalid")
	assert.Contains(t, got["detail"], `"auction/8"`)
	_, marked := g.Mark("auction/8")
	assert.False(t, marked)
}
