package fence_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

// The vectors come from Python's hmac and base64, over
//
//	fields = (domain, b"k1", b"1893456000", "auction/7 ü".encode(), b"34", holder)
//	b"".join(len(f).to_bytes(4, "big") + f for f in fields)
func TestKeyring_KnownAnswers(t *testing.T) {
	k := fence.Key{ID: "k1"}
	for b := range byte(32) {
		k.Secret = append(k.Secret, b)
	}
	expires := time.Unix(1893456000, 0)
	withHolder := held("auction/7 ü", 34)
	without := fence.Claim{Resource: "auction/7 ü", Token: 34}
	for _, row := range []struct {
		claim     fence.Claim
		sig, text string
	}{
		{
			withHolder,
			"k1:1893456000:73YGXhsQrafuU55QJ7BC2oypiRK17USnjEz2-qF39ws",
			"k1.1893456000.AAAAAAAAACJrp7gQna1B0YC0AMBP1DDIYXVjdGlvbi83IMO8.v5iUF7mD_IY72H92jkII98ftgw-XTwxQnDFVBydBk1k",
		},
		{
			without,
			"k1:1893456000:PcFZUjWes9b-X9gjt0LnlyIFkImwMAj4TUZXXq6_phE",
			"k1.1893456000.AAAAAAAAACIAAAAAAAAAAAAAAAAAAAAAYXVjdGlvbi83IMO8.AzFH2GgUEbZkTEPoZVu5xB9XIpuSw9eJ_wsOXjK0nbA",
		},
	} {
		synctest.Test(t, func(t *testing.T) { // where it is the year 2000
			ring := keyring(t, k)
			assert.Equal(t, row.sig, ring.Sign(row.claim, expires))
			require.NoError(t, ring.Verify(row.claim, row.sig))
			assert.Equal(t, row.text, ring.Encode(row.claim, expires))
			got, err := ring.Decode(row.text)
			require.NoError(t, err)
			assert.Equal(t, row.claim, got)
		})
	}
}

// Of two claims that differ, wherever one field could run into the next, neither has the other's
// signature.
func TestKeyring_ASignatureIsForOneClaim(t *testing.T) {
	ring := keyring(t, key("k1"))
	expires := inAMinute()
	claims := []fence.Claim{
		held("a", 12),
		held("a1", 2),
		held("a12", 0),
		held("a", 1),
		held("A", 12),
		held("a", -12),
		held("a\x00\x00\x00\x0212", 12),
		held("", 12),
		{Resource: "a", Token: 12},
		{Resource: "a", Token: 12, Holder: uuid.MustParse("00000000-0000-0000-0000-000000000001")},
		{Resource: "a", Token: 12, Holder: uuid.MustParse("6ba7b810-9dad-41d1-80b4-00c04fd430c9")},
		{Resource: "aü", Token: math.MaxInt64},
		{Resource: "au\u0308", Token: math.MaxInt64},
	}
	for i, signed := range claims {
		sig, text := ring.Sign(signed, expires), ring.Encode(signed, expires)
		for j, other := range claims {
			if i != j {
				assert.NotEqual(t, sig, ring.Sign(other, expires), "%v and %v", signed, other)
				assert.NotEqual(t, text, ring.Encode(other, expires), "%v and %v", signed, other)
				require.ErrorIs(t, ring.Verify(other, sig), fence.ErrForged)
			}
		}
		got, err := ring.Decode(text)
		if invalid := signed.Validate(); invalid != nil {
			assertInvalidAndForged(t, invalid, err)
			assert.Zero(t, got)
			assertInvalidAndForged(t, invalid, ring.Verify(signed, sig))
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, signed, got)
		require.NoError(t, ring.Verify(signed, sig))
	}
}

func assertInvalidAndForged(t *testing.T, invalid, err error) {
	t.Helper()
	require.ErrorIs(t, err, fence.ErrForged)
	require.ErrorIs(t, err, fence.ErrInvalid)
	assert.ErrorContains(t, err, invalid.Error())
}

// What was signed for one use doesn't pass in the other, with its parts put in the other order.
func TestKeyring_SignAndEncodeAreNotInterchangeable(t *testing.T) {
	ring := keyring(t, key("k1"))
	c := held("auction/7", 34)
	sig := strings.Split(ring.Sign(c, inAMinute()), ":")
	text := strings.Split(ring.Encode(c, inAMinute()), ".")
	require.Len(t, sig, 3)
	require.Len(t, text, 4)

	err := ring.Verify(c, strings.Join([]string{text[0], text[1], text[3]}, ":"))
	require.ErrorIs(t, err, fence.ErrForged)
	require.ErrorContains(t, err, "altered")
	_, err = ring.Decode(strings.Join([]string{sig[0], sig[1], text[2], sig[2]}, "."))
	require.ErrorIs(t, err, fence.ErrForged)
	require.ErrorContains(t, err, "altered")
	_, err = ring.Decode(strings.Join(sig, ":"))
	require.ErrorIs(t, err, fence.ErrForged)
	require.ErrorIs(t, ring.Verify(c, strings.Join(text, ".")), fence.ErrForged)
}

// edits calls refuse with everything that is one byte away from text, and with its beginnings, its
// ends and longer ones.
func edits(text string, refuse func(edited string)) {
	for i := range len(text) {
		for b := range 256 {
			if text[i] != byte(b) {
				refuse(text[:i] + string([]byte{byte(b)}) + text[i+1:])
			}
		}
		refuse(text[:i])
		refuse(text[i+1:])
		refuse(text[:i] + text[i+1:])
	}
	for i := range len(text) + 1 {
		for _, more := range []string{"\n", "\r\n", "=", "A", "0", "-", "+", " ", ".", ":", "\x00", strings.Repeat("A", 4000)} {
			refuse(text[:i] + more + text[i:])
		}
	}
	refuse(text + text)
	refuse(strings.ToUpper(text))
	refuse(strings.ToLower(text))
	refuse(url.QueryEscape(text) + "%20")
}

// Two keys share a secret, so that an edit of the id can lead to the right one. Lengths of the
// resource that leave spare bits in base64 and such that don't.
func TestL22_AnEditedCookieNever(t *testing.T) {
	ring := keyring(t, key("k1"), key("k2"), key("k"), key("k11"))
	for _, resource := range []string{"seat/A12", "seat/A1", "seat/A"} {
		for _, c := range []fence.Claim{held(resource, 34), {Resource: resource, Token: math.MaxInt64}} {
			text := ring.Encode(c, inAMinute())
			got, err := ring.Decode(text)
			require.NoError(t, err)
			require.Equal(t, c, got)
			edits(text, func(edited string) {
				if got, err := ring.Decode(edited); got != (fence.Claim{}) || !errors.Is(err, fence.ErrForged) {
					t.Fatalf("%q of %q: %v, %v", edited, text, got, err)
				} else if strings.Contains(err.Error(), text[14:24]) || len(err.Error()) > 200 {
					t.Fatalf("%q of %q: %v quotes it", edited, text, err)
				}
			})
		}
	}
}

func TestKeyring_AnEditedSignatureNever(t *testing.T) {
	ring := keyring(t, key("k1"), key("k2"), key("k"), key("k11"))
	c := held("seat/A12", 34)
	sig := ring.Sign(c, inAMinute())
	require.NoError(t, ring.Verify(c, sig))
	edits(sig, func(edited string) {
		if err := ring.Verify(c, edited); !errors.Is(err, fence.ErrForged) || len(err.Error()) > 200 {
			t.Fatalf("%q of %q: %v", edited, sig, err)
		}
	})
}

func TestKeyring_SaysWhyItRefuses(t *testing.T) {
	ring := keyring(t, key("k1"))
	c := held("seat/A12", 34)
	expires := time.Now().Add(time.Minute).Unix()
	const mac = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for sig, says := range map[string]string{
		"":                                     "malformed",
		"k1":                                   "malformed",
		"k1:":                                  "malformed",
		"k1:123":                               "malformed",
		"k1::" + mac:                           "malformed",
		"k1:12a:" + mac:                        "malformed",
		"k1:9223372036854775808:" + mac:        "malformed",
		"k1:1:" + strings.Repeat("A", 200):     "malformed",
		fmt.Sprintf("k9:%d:%s", expires, mac):  `unknown key "k9"`,
		fmt.Sprintf("k\n:%d:%s", expires, mac): `unknown key "k\n"`,
		fmt.Sprintf(":%d:%s", expires, mac):    `unknown key ""`,
		fmt.Sprintf("k1:%d:%s", expires, mac):  "altered",
		"k1:1:" + mac:                          "altered", // not "expired": nobody vouches for that 1
		ring.Sign(held("seat/A13", 34), inAMinute()): "altered",
		ring.Sign(c, time.Unix(951782400, 0)):        "expired at 2000-02-29T00:00:00Z",
	} {
		err := ring.Verify(c, sig)
		require.ErrorIs(t, err, fence.ErrForged)
		require.NotErrorIs(t, err, fence.ErrInvalid)
		assert.ErrorContains(t, err, says, "%q", sig)
		if strings.Count(sig, ":") == 2 {
			parts := strings.Split(sig, ":")
			_, err = ring.Decode(parts[0] + "." + parts[1] + ".AAAAAAAAACJrp7gQna1B0YC0AMBP1DDIYXVj." + parts[2])
			require.ErrorIs(t, err, fence.ErrForged)
			if !strings.HasPrefix(says, "expired") && len(parts[2]) == len(mac) {
				assert.ErrorContains(t, err, says, "%q", sig)
			}
		}
	}
	_, err := ring.Decode(ring.Encode(c, time.Unix(951782400, 0)))
	require.ErrorIs(t, err, fence.ErrForged)
	require.ErrorContains(t, err, "expired at 2000-02-29T00:00:00Z")
	for _, payload := range []string{"", "A", "!!!!", "AAAAAAAAACJrp7gQna1B0YC0AMBP1DD"} {
		_, err = ring.Decode(fmt.Sprintf("k1.%d.%s.%s", expires, payload, mac))
		require.ErrorIs(t, err, fence.ErrForged)
		require.ErrorContains(t, err, "malformed")
	}
}

func TestKeyring_ExpiresAtTheWholeSecond(t *testing.T) {
	c := held("seat/A12", 34)
	for _, row := range []struct {
		given, accepted time.Duration
	}{
		{time.Minute, time.Minute},
		{time.Minute + time.Nanosecond, time.Minute},
		{time.Minute + 999*time.Millisecond, time.Minute},
		{time.Second, time.Second},
		{time.Second - time.Nanosecond, 0},
		{0, 0},
		{-time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) { // begins at midnight, a whole second
			ring := keyring(t, key("k1"))
			expires := time.Now().Add(row.given)
			sig, text := ring.Sign(c, expires), ring.Encode(c, expires)
			accepted := func() bool {
				_, decoded := ring.Decode(text)
				verified := ring.Verify(c, sig)
				assert.Equal(t, decoded == nil, verified == nil)
				for _, err := range []error{verified, decoded} {
					if err != nil {
						require.ErrorIs(t, err, fence.ErrForged)
						require.ErrorContains(t, err, "expired")
					}
				}
				return verified == nil
			}
			if row.accepted > 0 {
				assert.True(t, accepted())
				time.Sleep(row.accepted - time.Nanosecond)
				assert.True(t, accepted(), "1 ns before, given %v", row.given)
				time.Sleep(time.Nanosecond)
			}
			assert.False(t, accepted(), "given %v", row.given)
			time.Sleep(1000 * time.Hour)
			assert.False(t, accepted())
		})
	}
}

func TestKeyring_ExpiryOutOfRange(t *testing.T) {
	ring := keyring(t, key("k1"))
	c := held("seat/A12", 34)
	for _, row := range []struct {
		expires time.Time
		written string
		err     bool
	}{
		{time.Time{}, "0", true},
		{time.Unix(math.MinInt64, 0), "0", true},
		{time.Unix(-1, 0), "0", true},
		{time.Unix(0, 0), "0", true},
		{time.Unix(1, 999_999_999), "1", true},
		{time.Date(9999, 12, 31, 23, 59, 59, 999, time.UTC), "253402300799", false},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "253402300799", false},
		{time.Unix(math.MaxInt64, 0), "253402300799", false},
		{time.Date(2126, 1, 1, 1, 0, 0, 0, time.FixedZone("CET", 3600)), "4922899200", false},
	} {
		sig, text := ring.Sign(c, row.expires), ring.Encode(c, row.expires)
		assert.Equal(t, row.written, strings.Split(sig, ":")[1])
		assert.Equal(t, row.written, strings.Split(text, ".")[1])
		_, decoded := ring.Decode(text)
		for _, err := range []error{ring.Verify(c, sig), decoded} {
			if !row.err {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, fence.ErrForged)
			require.ErrorContains(t, err, "expired")
		}
	}
}

func TestKeyring_TextsFitCookiesHeadersAndURLs(t *testing.T) {
	ring := keyring(t, key(strings.Repeat("i", 64)))
	end := time.Unix(math.MaxInt64, 0)
	for _, c := range []fence.Claim{
		{Resource: strings.Repeat("r", 512), Token: math.MaxInt64, Holder: uuid.Max},
		{Resource: strings.Repeat("\u00ff", 256), Token: 1},
		{Resource: `";, \%25<>`, Token: math.MaxInt64, Holder: uuid.Max},
	} {
		text, sig := ring.Encode(c, end), ring.Sign(c, end)
		assert.LessOrEqual(t, len(text), 837)
		assert.LessOrEqual(t, len(sig), 121)
		assert.Equal(t, text, url.QueryEscape(text))
		assert.Equal(t, "name="+text, (&http.Cookie{Name: "name", Value: text}).String())
		got, err := ring.Decode(text)
		require.NoError(t, err)
		assert.Equal(t, c, got)
		require.NoError(t, ring.Verify(c, sig))
	}
	longest := fence.Claim{Resource: strings.Repeat("r", 512), Token: 1}
	assert.Len(t, ring.Encode(longest, end), 837)
	assert.Len(t, ring.Sign(longest, end), 121)
	_, err := ring.Decode(ring.Encode(fence.Claim{Resource: strings.Repeat("r", 1<<20), Token: 1}, end))
	require.ErrorIs(t, err, fence.ErrForged)
	require.ErrorContains(t, err, "malformed", "it is not even looked into")
}
