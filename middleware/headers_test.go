package middleware

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

var holder = uuid.MustParse("6f1c2a9e-0b7d-4c53-9a41-5d2e8f70b3aa")

// What setHeaders writes, parseHeaders reads: for every valid resource name, in plain ASCII.
func TestHeaders_RoundTrip(t *testing.T) {
	for _, resource := range []string{
		"auction/7", "a b", "100%", "100%41", "%2F", "a,b;c=\"d\"", "a+b", "café/日本", "..", "/", "?#&=", strings.Repeat("é", 256),
	} {
		for _, c := range []fence.Claim{
			{Resource: resource, Token: 1, Holder: holder},
			{Resource: resource, Token: 9223372036854775807},
		} {
			h := http.Header{}
			setHeaders(h, c)
			for name, lines := range h {
				require.Regexp(t, `^[!-~]+$`, lines[0], name)
			}
			read, err := parseHeaders(h)
			require.NoError(t, err, resource)
			got, err := read.claim(resource)
			require.NoError(t, err)
			assert.Equal(t, c, got)
		}
	}
}

// A holder that is not in canonical form may still be the key to a live lease.
func TestHeaders_ErrorsNeverShowAHolder(t *testing.T) {
	for _, sent := range []string{strings.ToUpper(holder.String()), holder.String() + " ", "{" + holder.String() + "}", "urn:uuid:" + holder.String()} {
		_, err := parseHeaders(http.Header{"Fencing-Token": {"34"}, "Fencing-Holder": {sent}})
		require.ErrorIs(t, err, fence.ErrInvalid, sent)
		assert.NotContains(t, strings.ToLower(err.Error()), holder.String())
	}
}

// The claim that reaches the guard is valid even if a Resource is careless.
func TestHeaders_TheDerivedResourceIsValidated(t *testing.T) {
	for _, resource := range []string{"", strings.Repeat("a", 513), "a\nb", "\xff"} {
		_, err := wire{token: 34}.claim(resource)
		require.ErrorIs(t, err, fence.ErrInvalid, resource)
	}
}

func TestHeaders_ParsingAllocatesForAnEscapedResourceOnly(t *testing.T) {
	h := http.Header{"Fencing-Token": {"9223372036854775807"}, "Fencing-Holder": {holder.String()}}
	parse := func() {
		if read, err := parseHeaders(h); err != nil || read.token != 9223372036854775807 {
			t.Error(read, err)
		}
	}
	assert.Zero(t, testing.AllocsPerRun(100, parse))
	h["Fencing-Resource"] = []string{"auction%2F7"}
	assert.LessOrEqual(t, testing.AllocsPerRun(100, parse), 1.0)
}

// FuzzParseHeaders checks the parser against the contract's own words: it takes exactly what the
// grammar allows, and a claim that it has read is written back the same.
func FuzzParseHeaders(f *testing.F) {
	uuidText := holder.String()
	for _, seed := range [][3]string{
		{"34", uuidText, "auction%2F7"},
		{"9223372036854775807", "", ""},
		{"9223372036854775808", uuidText, "auction/7"},
		{"18446744073709551616", "", ""},
		{"007", strings.ToUpper(uuidText), "auction%2"},
		{"+5", "{" + uuidText + "}", "%FF"},
		{"33, 99", "urn:uuid:" + uuidText, "auction%252F7"},
		{"９", uuid.Nil.String(), "a\x00"},
		{" 33", uuidText + "\n", "%"},
		{"\n", "", "auction%2f7"},
	} {
		f.Add(seed[0], seed[1], seed[2], byte(1), byte(1), byte(1))
		f.Add(seed[0], seed[1], seed[2], byte(1), byte(0), byte(0))
		f.Add(seed[0], seed[1], seed[2], byte(2), byte(2), byte(2))
		f.Add(seed[0], seed[1], seed[2], byte(0), byte(1), byte(1))
	}
	digits := regexp.MustCompile(`\A[1-9][0-9]{0,18}\z`)
	canonical := regexp.MustCompile(`\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z`)

	f.Fuzz(func(t *testing.T, token, holder, resource string, tokens, holders, resources byte) {
		h := http.Header{}
		for range tokens % 4 {
			h["Fencing-Token"] = append(h["Fencing-Token"], token)
		}
		for range holders % 4 {
			h["Fencing-Holder"] = append(h["Fencing-Holder"], holder)
		}
		for range resources % 4 {
			h["Fencing-Resource"] = append(h["Fencing-Resource"], resource)
		}
		read, err := parseHeaders(h)

		if tokens%4 == 0 {
			require.ErrorIs(t, err, fence.ErrNoClaim)
			return
		}
		inGrammar := tokens%4 == 1 && holders%4 <= 1 && resources%4 <= 1 &&
			// As text: equally long digits compare like the numbers they write.
			digits.MatchString(token) && (len(token) < 19 || token <= "9223372036854775807") &&
			(holders%4 == 0 || canonical.MatchString(holder) && holder != uuid.Nil.String()) &&
			(resources%4 == 0 || resource != "" && !regexp.MustCompile(`%([^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?\z)`).MatchString(resource))
		if !inGrammar {
			require.ErrorIs(t, err, fence.ErrInvalid)
			require.NotErrorIs(t, err, fence.ErrNoClaim)
			return
		}
		require.NoError(t, err)
		require.Equal(t, token, read.token.String())
		if holders%4 == 1 {
			require.Equal(t, holder, read.holder.String())
		} else {
			require.Equal(t, uuid.Nil, read.holder)
		}

		if read.resource == "" {
			read.resource = "auction/7"
		}
		c, err := read.claim(read.resource)
		if fence.ValidateResource(read.resource) != nil {
			require.ErrorIs(t, err, fence.ErrInvalid)
			return
		}
		require.NoError(t, err)
		_, err = read.claim(read.resource + "x")
		require.ErrorIs(t, err, fence.ErrInvalid, "another resource than the route's")
		again := http.Header{}
		setHeaders(again, c)
		reread, err := parseHeaders(again)
		require.NoError(t, err)
		require.Equal(t, read, reread)
	})
}
