package middleware_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/middleware"
)

func TestM01_TwoSpellingsOfAPathAreOneResource(t *testing.T) {
	s := newSite(t, memguard.New(), nil)
	assert.Equal(t, 200, s.send("POST", "/auctions/A7/bids", claimHeaders("34", holderA)).status)
	for _, path := range []string{"/auctions/%41%37/bids", "/auctions/A%37/bids", "/%61uctions/A7/bids", "/auctions/A7/bids?id=8"} {
		s.send("POST", path, claimHeaders("33", holderA)).problem(412, "fencing-token-stale")
		assert.Equal(t, 200, s.send("POST", path, claimHeaders("34", holderA)).status)
	}
	for _, c := range s.handled() {
		assert.Equal(t, "auction/A7", c.Resource)
	}
}

func TestM01_TheResourceIsTheDecodedValue(t *testing.T) {
	for path, want := range map[string]string{
		"/auctions/caf%C3%A9/bids":         "auction/café",
		"/auctions/a%20b+c/bids":           "auction/a b+c",
		"/auctions/100%25/bids":            "auction/100%",
		"/auctions/50%25zz/bids":           "auction/50%zz",
		"/auctions/a..b/bids":              "auction/a..b",
		"/auctions/a;v=1/bids?id=8":        "auction/a;v=1",
		"/auctions/%3Fid=8%23x/bids":       "auction/?id=8#x",
		"/auctions/back%5Cslash/bids":      `auction/back\slash`,
		"/auctions/" + long(504) + "/bids": "auction/" + long(504),
	} {
		s := newSite(t, memguard.New(), nil)
		require.Equal(t, 200, s.send("POST", path, claimHeaders("34", holderA)).status, path)
		assert.Equal(t, want, s.handled()[0].Resource)
	}
}

func TestM01_AnAmbiguousPathIsRefused(t *testing.T) {
	for _, path := range []string{
		"/auctions/a%2Fb/bids", "/auctions/%2Fa/bids", // a slash
		"/auctions/a%2541/bids", "/auctions/%252e%252e/bids", "/auctions/a%25zz%2541/bids", // decodes again
		"/auctions/%2e%2e/bids", "/auctions/%2E/bids", // dot segments
		"/auctions/a%00b/bids", "/auctions/%7F/bids", "/auctions/a%0Ab/bids", // control characters
		"/auctions/%FF/bids",               // not UTF-8
		"/auctions/" + long(505) + "/bids", // 513 bytes with the prefix
	} {
		s := newSite(t, memguard.New(), nil)
		s.send("POST", path, claimHeaders("34", holderA)).problem(400, "fencing-token-invalid")
		assert.Empty(t, s.handled(), path)
	}
}

// TestM01_ARawPathValueIsRefused: chi hands out the undecoded segment when the path has a raw form.
func TestM01_ARawPathValueIsRefused(t *testing.T) {
	for _, raw := range []string{"a%2Fb", "%41", "a%2fb", "x%20y"} {
		r := httptest.NewRequest("POST", "/", nil)
		r.SetPathValue("id", raw)
		_, err := middleware.PathValue("id")(r)
		require.ErrorIs(t, err, fence.ErrInvalid, raw)
	}
}

// TestM01_TheClientCannotNameTheResource: what it sends is compared, never used.
func TestM01_TheClientCannotNameTheResource(t *testing.T) {
	g := memguard.New()
	s := newSite(t, g, nil)
	h := claimHeaders("34", holderA)
	h.Set("Fencing-Resource", "auction%2F8")
	s.post(h).problem(400, "fencing-token-invalid")
	_, marked := g.Mark("auction/8")
	assert.False(t, marked)
	assertMark(t, g, 0)
}

func TestResource_Helpers(t *testing.T) {
	r := httptest.NewRequest("POST", "/", nil)
	r.SetPathValue("id", "7")
	for want, res := range map[string]middleware.Resource{
		"7":         middleware.PathValue("id"),
		"auction/7": middleware.Prefix("auction/", middleware.PathValue("id")),
		"eu/a/7":    middleware.Prefix("eu/", middleware.Prefix("a/", middleware.PathValue("id"))),
		"ledger":    middleware.Const("ledger"),
		"100%41":    middleware.Const("100%41"),
	} {
		name, err := res(r)
		require.NoError(t, err)
		assert.Equal(t, want, name)
	}

	assert.Panics(t, func() { middleware.PathValue("") })
	assert.Panics(t, func() { middleware.Prefix("auction/", nil) })
	for _, name := range []string{"", long(513), "a\nb", "\xff"} {
		func() {
			defer func() {
				err, _ := recover().(error)
				assert.ErrorIs(t, err, fence.ErrInvalid, "%q", name)
			}()
			middleware.Const(name)
		}()
	}
}

func TestResource_ErrorsDoNotRepeatALongValue(t *testing.T) {
	r := httptest.NewRequest("POST", "/", nil)
	r.SetPathValue("id", strings.Repeat("/", 1<<16))
	_, err := middleware.PathValue("id")(r)
	require.ErrorIs(t, err, fence.ErrInvalid)
	assert.Less(t, len(err.Error()), 200)
}

func long(n int) string { return strings.Repeat("a", n) }
