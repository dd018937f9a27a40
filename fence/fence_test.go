package fence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var badTokens = []string{
	"", "0", "00", "01", "007", "+5", "-0", "-5", " 5", "5 ", "0x10", "1_000", "1e3", "4.6e18", "５", "٣", "5,6", "33 99", "\"5\"",
	"9223372036854775808", "18446744073709551616", strings.Repeat("9", 5000),
}

func TestC49_ParseTokenIsStrict(t *testing.T) {
	for _, s := range badTokens {
		got, err := fence.ParseToken(s)
		require.ErrorIs(t, err, fence.ErrInvalid, "%q", s)
		assert.Zero(t, got)
		assert.Less(t, len(err.Error()), 200)
	}
	for s, want := range map[string]fence.Token{"1": 1, "10": 10, "2147483648": 1 << 31, "9223372036854775807": math.MaxInt64} {
		got, err := fence.ParseToken(s)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, s, got.String())
		assert.True(t, got.Valid())
	}
	assert.False(t, fence.Token(0).Valid())
	assert.False(t, fence.Token(-1).Valid())
}

func FuzzParseToken(f *testing.F) {
	for _, s := range append(badTokens, "1", "9223372036854775807", "9007199254740993") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := fence.ParseToken(s)
		n, reference := strconv.ParseInt(s, 10, 64)
		canonical := reference == nil && n > 0 && strconv.FormatInt(n, 10) == s
		if canonical != (err == nil) {
			t.Fatalf("ParseToken(%q) = %v, %v", s, got, err)
		}
		if canonical && int64(got) != n {
			t.Fatalf("ParseToken(%q) = %v, want %d", s, got, n)
		}
	})
}

func TestC36_JSONTokensAreStrings(t *testing.T) {
	type message struct{ Token fence.Token }
	for _, token := range []fence.Token{0, 1, 4611686018427387906, math.MaxInt64} {
		text, err := json.Marshal(message{token})
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf(`{"Token":"%d"}`, token), string(text))
		var back message
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, token, back.Token)
	}
	for _, text := range []string{`{"Token":9007199254740993}`, `{"Token":4.6e18}`, `{"Token":5}`, `{"Token":"4.6e18"}`, `{"Token":""}`, `{"Token":"-1"}`} {
		got := message{Token: 7}
		require.Error(t, json.Unmarshal([]byte(text), &got), text)
		assert.Equal(t, message{Token: 7}, got)
	}
	_, err := json.Marshal(message{-1})
	require.ErrorIs(t, err, fence.ErrInvalid)
}

func TestClaim_Validate(t *testing.T) {
	holder := uuid.New()
	for _, row := range []struct {
		claim fence.Claim
		names string
	}{
		{fence.Claim{Token: 1}, `resource ""`},
		{fence.Claim{Resource: strings.Repeat("r", 513), Token: 1}, "513 bytes"},
		{fence.Claim{Resource: "a\xff", Token: 1}, `resource "a\xff"`},
		{fence.Claim{Resource: "a\nb", Token: 1}, "U+000A"},
		{fence.Claim{Resource: "a\u0085", Token: 1}, "U+0085"},
		{fence.Claim{Resource: "a\x7f", Token: 1}, "U+007F"},
		{fence.Claim{Resource: "a", Holder: holder}, "token 0"},
		{fence.Claim{Resource: "a", Token: -3, Holder: holder}, "token -3"},
	} {
		err := row.claim.Validate()
		require.ErrorIs(t, err, fence.ErrInvalid)
		assert.ErrorContains(t, err, row.names)
	}
	for _, c := range []fence.Claim{
		{Resource: "a", Token: 1},
		{Resource: strings.Repeat("r", 512), Token: math.MaxInt64, Holder: holder},
		{Resource: "aü/ {}%", Token: 1},
	} {
		require.NoError(t, c.Validate())
	}
}

func TestClaim_NeverShowsItsHolder(t *testing.T) {
	c := fence.Claim{Resource: "auction/7", Token: 34, Holder: uuid.New()}
	rejected := &fence.RejectedError{Claim: c, Mark: 35, Verdict: fence.ErrStale}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "claim", c, "error", rejected)
	shown := []string{
		c.String(), log.String(), rejected.Error(),
		fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c), fmt.Sprintf("%v %+v", &c, &c),
	}
	for _, s := range shown {
		assert.NotContains(t, s, c.Holder.String()[:8])
		assert.NotContains(t, s, fmt.Sprint(c.Holder[0], " ", c.Holder[1]))
		assert.Contains(t, s, fence.Fingerprint(c.Holder))
		assert.Contains(t, s, "34")
	}
	assert.Equal(t, "none", fence.Fingerprint(uuid.Nil))
}

func TestRejectedError(t *testing.T) {
	for _, verdict := range []error{fence.ErrStale, fence.ErrDuplicate, fence.ErrReplayed} {
		var err error = &fence.RejectedError{Claim: fence.Claim{Resource: "auction/7", Token: 33}, Mark: 34, Verdict: verdict}
		err = fmt.Errorf("saving the bid: %w", err)
		for _, other := range []error{fence.ErrStale, fence.ErrDuplicate, fence.ErrReplayed, fence.ErrUnavailable, fence.ErrInvalid} {
			assert.Equal(t, other == verdict, errors.Is(err, other))
		}
		var rejected *fence.RejectedError
		require.ErrorAs(t, err, &rejected)
		assert.Equal(t, fence.Token(34), rejected.Mark)
		assert.ErrorContains(t, err, "the mark is 34")
	}
	unknown := &fence.RejectedError{Claim: fence.Claim{Resource: "a", Token: 1}, Verdict: fence.ErrStale}
	assert.NotContains(t, unknown.Error(), "mark")
}

func TestContext_CarriesOneClaimAResource(t *testing.T) {
	ctx := context.Background()
	_, ok := fence.FromContext(ctx)
	require.False(t, ok)
	require.Nil(t, fence.Claims(ctx))

	b := fence.Claim{Resource: "b", Token: 1}
	a := fence.Claim{Resource: "a", Token: 2}
	newB := fence.Claim{Resource: "b", Token: 3}
	withB := fence.NewContext(ctx, b)
	withBoth := fence.NewContext(withB, a)
	replaced := fence.NewContext(withBoth, newB)

	last, ok := fence.FromContext(withBoth)
	require.True(t, ok)
	assert.Equal(t, a, last)
	got, ok := fence.ForResource(withBoth, "b")
	require.True(t, ok)
	assert.Equal(t, b, got)
	_, ok = fence.ForResource(withBoth, "c")
	assert.False(t, ok)
	assert.Equal(t, []fence.Claim{a, b}, fence.Claims(withBoth))
	assert.Equal(t, []fence.Claim{a, newB}, fence.Claims(replaced))
	assert.Equal(t, []fence.Claim{b}, fence.Claims(withB), "a context is immutable")
}
