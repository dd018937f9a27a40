package fence_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

// key returns a key whose secret is the same at each run.
func key(id string) fence.Key {
	return fence.Key{ID: id, Secret: bytes.Repeat([]byte("0123456789abcdef"), 2)}
}

func keyring(tb testing.TB, keys ...fence.Key) *fence.Keyring {
	tb.Helper()
	ring, err := fence.NewKeyring(keys...)
	require.NoError(tb, err)
	return ring
}

func held(resource string, token fence.Token) fence.Claim {
	return fence.Claim{Resource: resource, Token: token, Holder: uuid.MustParse("6ba7b810-9dad-41d1-80b4-00c04fd430c8")}
}

func inAMinute() time.Time { return time.Now().Add(time.Minute) }

func TestNewKeyring_NamesTheInvalidKey(t *testing.T) {
	good := key("good")
	secret := good.Secret
	for _, row := range []struct {
		keys []fence.Key
		says []string
	}{
		{nil, []string{"no keys", "want one or more"}},
		{[]fence.Key{{}}, []string{"key 1 of 1", `id ""`, "0 bytes", "want 1 to 64"}},
		{[]fence.Key{good, {ID: "", Secret: secret}}, []string{"key 2 of 2", `id ""`}},
		{[]fence.Key{{ID: strings.Repeat("i", 65), Secret: secret}}, []string{`id "iiiiiiii"...`, "65 bytes", "want 1 to 64"}},
		{[]fence.Key{{ID: "a:b", Secret: secret}}, []string{`id "a:b"`, `":" at byte 1`}},
		{[]fence.Key{{ID: "a.b", Secret: secret}}, []string{`"." at byte 1`}},
		{[]fence.Key{{ID: "ab,", Secret: secret}}, []string{`"," at byte 2`}},
		{[]fence.Key{{ID: " ab", Secret: secret}}, []string{`" " at byte 0`}},
		{[]fence.Key{{ID: "a\nb", Secret: secret}}, []string{`"a\nb"`, `"\n" at byte 1`}},
		{[]fence.Key{{ID: "ü", Secret: secret}}, []string{`"\xc3" at byte 0`, "A-Z a-z 0-9 - _"}},
		{[]fence.Key{good, {ID: "k2"}}, []string{"key 2 of 2", `id "k2"`, "secret is 0 bytes", "want 32 or more"}},
		{[]fence.Key{{ID: "k1", Secret: secret[:31]}, good}, []string{"key 1 of 2", "secret is 31 bytes"}},
		{[]fence.Key{good, key("other"), good}, []string{"key 3 of 3", `id "good"`, "earlier"}},
		{[]fence.Key{{ID: hex.EncodeToString(secret), Secret: []byte("k1")}}, []string{"key 1 of 1", "secret is 2 bytes"}}, // swapped
	} {
		ring, err := fence.NewKeyring(row.keys...)
		require.ErrorIs(t, err, fence.ErrInvalid)
		assert.Nil(t, ring)
		for _, text := range row.says {
			assert.ErrorContains(t, err, text)
		}
		assert.Less(t, len(err.Error()), 200)
		assertNoSecret(t, secret, err.Error())
	}
	for _, id := range []string{"k", "2026-12", "A_b-9", strings.Repeat("i", 64)} {
		ring := keyring(t, fence.Key{ID: id, Secret: secret}, key("Good"), good)
		assert.True(t, strings.HasPrefix(ring.Sign(held("a", 1), inAMinute()), id+":"))
	}
}

func assertNoSecret(t *testing.T, secret []byte, shown string) {
	t.Helper()
	for _, form := range []string{
		string(secret), hex.EncodeToString(secret), strings.ToUpper(hex.EncodeToString(secret)),
		base64.StdEncoding.EncodeToString(secret), base64.RawURLEncoding.EncodeToString(secret),
		strings.Trim(fmt.Sprintf("%d", secret), "[]"), fmt.Sprintf("%#v", secret)[len("[]byte{"):100],
	} {
		assert.NotContains(t, strings.ToLower(shown), strings.ToLower(form[:len(form)/2]))
	}
}

func TestKey_NeverShowsItsSecret(t *testing.T) {
	k := key("k1")
	ring := keyring(t, k, key("k0"))
	require.NoError(t, ring.Verify(held("a", 1), ring.Sign(held("a", 1), inAMinute()))) // fills what it keeps between calls
	configuration := struct {
		Key  fence.Key
		Keys []fence.Key
		Ptr  *fence.Key
		Ring *fence.Keyring
		ring *fence.Keyring
	}{k, []fence.Key{k}, &k, ring, ring}

	var text, object strings.Builder
	for _, log := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&object, nil)} {
		slog.New(log).Info("m", "key", k, "ptr", &k, "ring", ring, "value", *ring, "configuration", configuration)
	}
	marshalled, err := json.Marshal(configuration)
	require.NoError(t, err)
	shown := []string{text.String(), object.String(), string(marshalled), k.String(), fmt.Sprint(k, ring)}
	for _, verb := range strings.Fields("%v %+v %#v %s %q %x %X %d %o %c %U %t %T %10v %!") {
		for _, v := range []any{k, &k, []fence.Key{k}, map[string]fence.Key{"k": k}, ring, *ring, configuration} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
	}
	for _, s := range shown {
		assertNoSecret(t, k.Secret, s)
	}
	assert.Equal(t, `fence.Key("k1")`, fmt.Sprintf("%#v", k))
	assert.Equal(t, `fence.Key("k1")`, k.LogValue().String())
	assert.Equal(t, `fence.Keyring("k1" "k0")`, fmt.Sprint(ring))
	assert.Contains(t, string(marshalled), `"Key":"fence.Key(\"k1\")"`)
	assertNoSecret(t, k.Secret, fence.Key{ID: hex.EncodeToString(k.Secret)}.String()) // swapped
}

func TestKeyring_CopiesTheSecret(t *testing.T) {
	k := key("k1")
	ring, untouched := keyring(t, k), keyring(t, key("k1"))
	clear(k.Secret)
	c := held("auction/7", 34)
	require.NoError(t, untouched.Verify(c, ring.Sign(c, inAMinute())))
}

func TestKeyring_NilAndZeroRefuseEverything(t *testing.T) {
	c := held("auction/7", 34)
	other := keyring(t, key("k1"))
	for _, ring := range []*fence.Keyring{nil, {}} {
		assert.Empty(t, ring.Sign(c, inAMinute()))
		assert.Empty(t, ring.Encode(c, inAMinute()))
		assert.Equal(t, "fence.Keyring()", ring.String())
		for _, sig := range []string{"", "::", other.Sign(c, inAMinute())} {
			require.ErrorIs(t, ring.Verify(c, sig), fence.ErrForged)
		}
		for _, text := range []string{"", "...", other.Encode(c, inAMinute())} {
			_, err := ring.Decode(text)
			require.ErrorIs(t, err, fence.ErrForged)
		}
	}
}

func TestKeyring_TheFirstKeySignsAndAllVerify(t *testing.T) {
	older, newer := fence.Key{ID: "2025", Secret: make([]byte, 32)}, fence.Key{ID: "2026", Secret: make([]byte, 64)}
	_, _ = rand.Read(older.Secret)
	_, _ = rand.Read(newer.Secret)
	c := held("auction/7", 34)

	// The servers in the order in which they are restarted.
	rings := []*fence.Keyring{keyring(t, older), keyring(t, older, newer), keyring(t, newer, older), keyring(t, newer)}
	signsWith := []string{"2025", "2025", "2026", "2026"}
	for i, signer := range rings {
		sig, text := signer.Sign(c, inAMinute()), signer.Encode(c, inAMinute())
		assert.True(t, strings.HasPrefix(sig, signsWith[i]+":"), "keyring %d signed %s", i, sig)
		assert.True(t, strings.HasPrefix(text, signsWith[i]+"."), "keyring %d encoded %s", i, text)
		for j, verifier := range rings {
			if i-j > 1 || j-i > 1 {
				continue // they are never up together
			}
			require.NoError(t, verifier.Verify(c, sig), "signed by %d, verified by %d", i, j)
			got, err := verifier.Decode(text)
			require.NoError(t, err)
			assert.Equal(t, c, got)
		}
	}

	sig, text := rings[0].Sign(c, inAMinute()), rings[0].Encode(c, inAMinute())
	err := rings[3].Verify(c, sig)
	require.ErrorIs(t, err, fence.ErrForged)
	require.ErrorContains(t, err, `unknown key "2025"`)
	_, err = rings[3].Decode(text)
	require.ErrorIs(t, err, fence.ErrForged)
	require.ErrorContains(t, err, `unknown key "2025"`)

	reused := keyring(t, fence.Key{ID: "2025", Secret: newer.Secret})
	err = reused.Verify(c, sig)
	require.ErrorIs(t, err, fence.ErrForged)
	assert.ErrorContains(t, err, `key "2025" had another secret`)
}

func TestKeyring_IsSafeForConcurrentUse(t *testing.T) {
	ring := keyring(t, key("k2"), key("k1"))
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 200 {
				c := held(fmt.Sprint("r/", worker), fence.Token(i+1))
				assert.NoError(t, ring.Verify(c, ring.Sign(c, inAMinute())))
				got, err := ring.Decode(ring.Encode(c, inAMinute()))
				assert.NoError(t, err)
				assert.Equal(t, c, got)
			}
		})
	}
	group.Wait()
}
