package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/middleware"
)

var claim34 = fence.Claim{Resource: "auction/7", Token: 34, Holder: holderA}

// roundTrip is a base transport that shows what it is given.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recorder answers 204 and keeps the last request.
func recorder(last **http.Request) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		*last = r
		return &http.Response{StatusCode: 204, Body: http.NoBody, Request: r}, nil
	})
}

// body tells whether it was closed.
type body struct {
	io.Reader
	closed atomic.Bool
}

func (b *body) Close() error { b.closed.Store(true); return nil }

// request is a POST with a body, its context carrying the claim.
func request(ctx context.Context, t *testing.T, url string, c fence.Claim) (*http.Request, *body) {
	t.Helper()
	b := &body{Reader: strings.NewReader("120")}
	r, err := http.NewRequestWithContext(fence.NewContext(ctx, c), "POST", url, b)
	require.NoError(t, err)
	return r, b
}

// roundTripOf sends r and returns the request that the response names.
func roundTripOf(t *testing.T, rt http.RoundTripper, r *http.Request) (*http.Request, error) {
	t.Helper()
	resp, err := rt.RoundTrip(r)
	if err != nil {
		assert.Nil(t, resp)
		return nil, err
	}
	require.NoError(t, resp.Body.Close())
	return resp.Request, nil
}

// assertRefused sends r and checks that it was not sent, its body closed, and the holder not shown.
func assertRefused(t *testing.T, rt func(base http.RoundTripper) http.RoundTripper, r *http.Request, b *body) error {
	t.Helper()
	_, err := roundTripOf(t, rt(roundTrip(func(*http.Request) (*http.Response, error) {
		t.Error("was sent")
		return nil, errors.New("unexpected")
	})), r)
	require.Error(t, err)
	assert.True(t, b.closed.Load(), "RoundTrip must close the body")
	assert.NotContains(t, err.Error(), holderA.String())
	return err
}

func toExample(base http.RoundTripper) http.RoundTripper {
	return middleware.NewTransport(base, middleware.WithHosts("example.com"))
}

func TestM04_SendsTheClaimOfTheRequestsContext(t *testing.T) {
	for name, row := range map[string]struct {
		claim fence.Claim
		want  http.Header
	}{
		"whole":          {claim34, http.Header{"Fencing-Token": {"34"}, "Fencing-Holder": {holderA.String()}, "Fencing-Resource": {"auction%2F7"}}},
		"without holder": {fence.Claim{Resource: "a b,c", Token: 9223372036854775807}, http.Header{"Fencing-Token": {"9223372036854775807"}, "Fencing-Resource": {"a%20b%2Cc"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent *http.Request
			r, _ := request(t.Context(), t, "https://example.com/auctions/7/bids", row.claim)
			r.Header.Set("X-Request-Id", "1")
			named, err := roundTripOf(t, toExample(recorder(&sent)), r)
			require.NoError(t, err)

			row.want.Set("X-Request-Id", "1")
			assert.Equal(t, row.want, sent.Header)
			assert.Equal(t, http.Header{"X-Request-Id": {"1"}}, r.Header, "the request is not modified")
			assert.Same(t, r, named, "the response does not show the holder")
		})
	}

	t.Run("a request without any header", func(t *testing.T) {
		var sent *http.Request
		r := (&http.Request{Method: "POST", URL: &url.URL{Scheme: "http", Host: "example.com"}}).WithContext(fence.NewContext(t.Context(), claim34))
		_, err := roundTripOf(t, toExample(recorder(&sent)), r)
		require.NoError(t, err)
		assert.Equal(t, "34", sent.Header.Get("Fencing-Token"))
		assert.Nil(t, r.Header)
	})
	t.Run("without a claim, to any host, untouched", func(t *testing.T) {
		var sent *http.Request
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://elsewhere.example.org", nil)
		require.NoError(t, err)
		r.Header.Set("Fencing-Token", "1")
		_, err = roundTripOf(t, middleware.NewTransport(recorder(&sent)), r)
		require.NoError(t, err)
		assert.Same(t, r, sent)
	})
}

func TestM04_NeverTheCurrentClaim(t *testing.T) {
	var sent *http.Request
	rt := toExample(recorder(&sent))
	ctx := fence.NewContext(t.Context(), claim34)
	built, err := http.NewRequestWithContext(ctx, "POST", "http://example.com", nil)
	require.NoError(t, err)
	newer := fence.NewContext(ctx, fence.Claim{Resource: "auction/7", Token: 35, Holder: holderB})
	inner := fence.NewContext(newer, fence.Claim{Resource: "seat/A12", Token: 5, Holder: holderB})

	_, err = roundTripOf(t, rt, built)
	require.NoError(t, err)
	assert.Equal(t, "34", sent.Header.Get("Fencing-Token"))
	assert.Equal(t, holderA.String(), sent.Header.Get("Fencing-Holder"))

	// Of several, the one added last.
	_, err = roundTripOf(t, rt, built.WithContext(inner))
	require.NoError(t, err)
	assert.Equal(t, "seat%2FA12", sent.Header.Get("Fencing-Resource"))
}

func TestM04_OnlyToItsHosts(t *testing.T) {
	with := func(opts ...middleware.TransportOption) func(http.RoundTripper) http.RoundTripper {
		return func(base http.RoundTripper) http.RoundTripper { return middleware.NewTransport(base, opts...) }
	}
	for name, row := range map[string]struct {
		transport func(http.RoundTripper) http.RoundTripper
		url       string
	}{
		"no hosts":       {with(), "http://example.com"},
		"empty hosts":    {with(middleware.WithHosts()), "http://example.com"},
		"another host":   {with(middleware.WithHosts("example.com")), "http://evil.example.org"},
		"another port":   {with(middleware.WithHosts("example.com:8080")), "http://example.com:9090"},
		"a subdomain":    {with(middleware.WithHosts("example.com")), "http://api.example.com"},
		"Host is not it": {with(middleware.WithHosts("example.com")), "http://10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, b := request(t.Context(), t, row.url, claim34)
			r.Host = "example.com"
			err := assertRefused(t, row.transport, r, b)
			require.ErrorIs(t, err, fence.ErrInvalid)
			assert.Contains(t, err.Error(), r.URL.Host)
		})
	}

	t.Run("several options add up", func(t *testing.T) {
		var sent *http.Request
		rt := middleware.NewTransport(recorder(&sent), middleware.WithHosts("a.example", "b.example"), middleware.WithHosts("c.example:81"))
		for _, u := range []string{"http://a.example", "http://b.example", "http://c.example:81"} {
			r, _ := request(t.Context(), t, u, claim34)
			_, err := roundTripOf(t, rt, r)
			require.NoError(t, err)
		}
	})
}

// TestM04_AcrossRedirects: an http.Client keeps the context across redirects, so the claim goes along.
func TestM04_AcrossRedirects(t *testing.T) {
	foreign := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the foreign host got %v", r.Header) }))
	s := newSite(t, memguard.New(), nil)
	var downgrade http.Handler
	mux := http.NewServeMux()
	mux.Handle("/here", http.RedirectHandler(s.URL+"/auctions/7/bids", http.StatusTemporaryRedirect))
	mux.Handle("/foreign", http.RedirectHandler(foreign.URL, http.StatusTemporaryRedirect))
	mux.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) { downgrade.ServeHTTP(w, r) })
	front := serve(t, mux)
	secure := httptest.NewTLSServer(mux)
	t.Cleanup(secure.Close)
	downgrade = http.RedirectHandler(front.URL+"/here", http.StatusPermanentRedirect)

	post := func(client *http.Client, url string) (reply, error) {
		fenced := &http.Client{Transport: middleware.NewTransport(client.Transport,
			middleware.WithHosts(hostPort(t, front.URL), hostPort(t, secure.URL), hostPort(t, s.URL)))}
		r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), claim34), "POST", url, strings.NewReader("120"))
		require.NoError(t, err)
		resp, err := fenced.Do(r)
		if err != nil {
			return reply{}, err
		}
		defer func() { _ = resp.Body.Close() }()
		assert.NotContains(t, resp.Request.Header, "Fencing-Holder")
		return reply{t: t, status: resp.StatusCode}, nil
	}

	got, err := post(front.Client(), front.URL+"/here")
	require.NoError(t, err)
	assert.Equal(t, 200, got.status)
	assert.Equal(t, []fence.Claim{claim34}, s.handled())

	_, err = post(front.Client(), front.URL+"/foreign")
	require.ErrorIs(t, err, fence.ErrInvalid)
	assert.Contains(t, err.Error(), hostPort(t, foreign.URL))

	_, err = post(secure.Client(), secure.URL+"/plain")
	require.ErrorIs(t, err, fence.ErrInvalid, "https to http")
	assert.Contains(t, err.Error(), "from https to http")
	assert.Len(t, s.handled(), 1)
}

func hostPort(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u.Host
}

// fails returns the error of a request that must have one.
func fails(t *testing.T, client *http.Client, r *http.Request) error {
	t.Helper()
	resp, err := client.Do(r)
	if err == nil {
		_ = resp.Body.Close()
	}
	require.Error(t, err)
	return err
}

func TestM04_NotOnceTheLeaseHasEnded(t *testing.T) {
	errLost := errors.New("lock: lost")
	ctx, end := context.WithCancelCause(t.Context())
	r, b := request(ctx, t, "http://example.com", claim34)
	end(errLost)
	err := assertRefused(t, toExample, r, b)
	require.ErrorIs(t, err, errLost)
	require.ErrorIs(t, err, context.Canceled)
	assert.Contains(t, err.Error(), "auction/7")

	t.Run("through a client, and a context derived from the lease's", func(t *testing.T) {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		r, _ := request(derived, t, "http://example.com", claim34)
		require.ErrorIs(t, fails(t, &http.Client{Transport: toExample(nil)}, r), errLost)
	})
	t.Run("while the request is under way", func(t *testing.T) {
		arrived, release := make(chan struct{}), make(chan struct{})
		srv := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-release
		}))
		defer close(release)
		ctx, end := context.WithCancelCause(t.Context())
		go func() {
			<-arrived
			end(errLost)
		}()
		r, _ := request(ctx, t, srv.URL, claim34)
		client := &http.Client{Transport: middleware.NewTransport(srv.Client().Transport, middleware.WithHosts("127.0.0.1"))}
		require.ErrorIs(t, fails(t, client, r), errLost)
	})
}

func TestM04_NeverGuesses(t *testing.T) {
	for _, name := range []string{"Fencing-Token", "Fencing-Holder", "Fencing-Resource", "Fencing-Signature", "fencing-token"} {
		r, b := request(t.Context(), t, "http://example.com", claim34)
		r.Header[name] = []string{"1"}
		err := assertRefused(t, toExample, r, b)
		require.ErrorIs(t, err, fence.ErrInvalid)
		assert.Contains(t, err.Error(), name)
	}
	for _, c := range []fence.Claim{{}, {Resource: "auction/7"}, {Resource: "auction/7", Token: -1}, {Resource: "a\nb", Token: 1}, {Resource: long(513), Token: 1}} {
		r, b := request(t.Context(), t, "http://example.com", c)
		require.ErrorIs(t, assertRefused(t, toExample, r, b), fence.ErrInvalid)
	}
	r, b := request(t.Context(), t, "http://example.com", claim34)
	r.URL = nil
	require.ErrorIs(t, assertRefused(t, toExample, r, b), fence.ErrInvalid)
}

// TestTransport_MeetsRequire: what one end sends, the other takes, whatever the resource is called.
func TestTransport_MeetsRequire(t *testing.T) {
	for _, name := range []string{"7", "a b", "100%", "café", "a,b;c", `"q"`, "a+b", "..a"} {
		s := newSite(t, memguard.New(), nil)
		client := &http.Client{Transport: middleware.NewTransport(s.Client().Transport, middleware.WithHosts("127.0.0.1"))}
		for _, step := range []struct {
			token  fence.Token
			holder uuid.UUID
			want   int
		}{{34, holderA, 200}, {34, holderA, 200}, {33, holderA, 412}, {34, holderB, 412}, {34, uuid.Nil, 409}, {35, holderB, 200}} {
			c := fence.Claim{Resource: "auction/" + name, Token: step.token, Holder: step.holder}
			r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), c), "POST", s.URL+"/auctions/"+url.PathEscape(name)+"/bids", nil)
			require.NoError(t, err)
			resp, err := client.Do(r)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, step.want, resp.StatusCode, c)
		}
		client.CloseIdleConnections()
	}
}

func TestTransport_ClosesIdleConnectionsOfItsBase(t *testing.T) {
	base := &closing{}
	(&http.Client{Transport: middleware.NewTransport(base)}).CloseIdleConnections()
	assert.True(t, base.closed)
	(&http.Client{Transport: middleware.NewTransport(recorder(nil))}).CloseIdleConnections()
}

type closing struct {
	http.RoundTripper
	closed bool
}

func (c *closing) CloseIdleConnections() { c.closed = true }
