package middleware_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/middleware"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	holderA = uuid.MustParse("6f1c2a9e-0b7d-4c53-9a41-5d2e8f70b3aa")
	holderB = uuid.MustParse("0d9b8c7a-1e2f-4a3b-8c4d-5e6f7a8b9c0d")
)

// guardFunc is a guard with a scripted answer.
type guardFunc func(context.Context, fence.Claim) error

func (f guardFunc) Admit(ctx context.Context, c fence.Claim) error { return f(ctx, c) }

func failingWith(err error) guard.Guard {
	return guardFunc(func(context.Context, fence.Claim) error { return err })
}

// site is a real server with one fenced route, POST /auctions/{id}/bids, and what happened there.
type site struct {
	*httptest.Server
	t   *testing.T
	log *logged

	mu   sync.Mutex
	runs []fence.Claim // of the handler's context, one a run
}

func newSite(t *testing.T, g guard.Guard, handler http.HandlerFunc, opts ...middleware.Option) *site {
	t.Helper()
	s := &site{t: t, log: &logged{}}
	opts = append([]middleware.Option{middleware.WithLogger(s.log.logger())}, opts...)
	fenced := middleware.Require(g, middleware.Prefix("auction/", middleware.PathValue("id")), opts...)
	mux := http.NewServeMux()
	mux.Handle("/auctions/{id}/bids", fenced(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim, _ := fence.FromContext(r.Context())
		s.mu.Lock()
		s.runs = append(s.runs, claim)
		s.mu.Unlock()
		if handler != nil {
			handler(w, r)
		}
	})))
	s.Server = serve(t, mux)
	return s
}

// serve starts a server that ends with the test, and does not print the panics of its handlers.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// handled returns the claims that reached the handler.
func (s *site) handled() []fence.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

func claimHeaders(token string, holder uuid.UUID) http.Header {
	h := http.Header{"Fencing-Token": {token}}
	if holder != uuid.Nil {
		h.Set("Fencing-Holder", holder.String())
	}
	return h
}

func (s *site) post(h http.Header) reply { s.t.Helper(); return s.send("POST", "/auctions/7/bids", h) }

func (s *site) send(method, path string, h http.Header) reply {
	s.t.Helper()
	return send(s.t, s.Client(), method, s.URL+path, h)
}

// reply is a response that has been read.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func send(t *testing.T, client *http.Client, method, url string, h http.Header) reply {
	t.Helper()
	got, err := trySend(t, client, method, url, h)
	require.NoError(t, err)
	return got
}

func trySend(t *testing.T, client *http.Client, method, url string, h http.Header) (reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("120"))
	require.NoError(t, err)
	for name, lines := range h {
		req.Header[name] = lines
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{t, resp.StatusCode, resp.Header, string(body)}, nil
}

// problem checks what is the same for every problem, and returns its members.
func (r reply) problem(status int, kind string) map[string]any {
	r.t.Helper()
	require.Equal(r.t, status, r.status, r.body)
	assert.Equal(r.t, "application/problem+json", r.header.Get("Content-Type"))
	assert.Equal(r.t, "no-store", r.header.Get("Cache-Control"))
	var members map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &members), r.body)
	assert.Equal(r.t, kind, members["type"])
	assert.EqualValues(r.t, status, members["status"])
	assert.NotEmpty(r.t, members["title"])
	assert.NotEmpty(r.t, members["detail"])
	if status == http.StatusServiceUnavailable {
		assert.Equal(r.t, "1", r.header.Get("Retry-After"))
	} else {
		assert.NotContains(r.t, r.header, "Retry-After")
	}
	for _, holder := range []uuid.UUID{holderA, holderB} {
		assert.NotContains(r.t, strings.ToLower(r.body), holder.String())
	}
	return members
}

// logged collects the lines of a logger.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// assertMark checks the mark of auction/7; 0: none.
func assertMark(t *testing.T, g *memguard.Guard, want fence.Token) {
	t.Helper()
	mark, _ := g.Mark("auction/7")
	assert.Equal(t, want, mark.Token)
}
