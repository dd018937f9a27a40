package fence_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
)

// Of all texts only those that the keyring gave out are accepted, whatever is derived from them.
func FuzzKeyringDecode(f *testing.F) {
	ring := keyring(f, key("k2"), key("k1"))
	old := keyring(f, key("k1"))
	end := time.Unix(math.MaxInt64, 0)
	issued := map[string]fence.Claim{}
	for _, c := range []fence.Claim{held("seat/A12", 34), held("seat/A1", 34), {Resource: "ü", Token: math.MaxInt64}} {
		issued[ring.Encode(c, end)] = c
		issued[old.Encode(c, end)] = c
	}
	for text := range issued {
		f.Add(text)
		f.Add(text + "\n")
		f.Add(strings.Replace(text, "k1.", "k2.", 1))
	}
	for _, text := range []string{
		"", "...", "k1.1.AAAA.AAAA", "k1.0.." + strings.Repeat("A", 43), strings.Repeat("A", 900),
		ring.Encode(held("seat/A12", 34), time.Unix(1, 0)), ring.Encode(held("", -1), end), ring.Encode(held("a\n", 1), end),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ring.Decode(text)
		want, known := issued[text]
		switch {
		case known && (err != nil || got != want):
			t.Fatalf("Decode(%q) = %v, %v; want %v", text, got, err, want)
		case !known && (!errors.Is(err, fence.ErrForged) || got != fence.Claim{}):
			t.Fatalf("Decode(%q) = %v, %v; want ErrForged", text, got, err)
		case known:
			parts := strings.Split(text, ".")
			expires, _ := strconv.ParseInt(parts[1], 10, 64)
			signer := keyring(t, key(parts[0]))
			if again := signer.Encode(got, time.Unix(expires, 0)); again != text {
				t.Fatalf("%q was accepted, and is encoded as %q", text, again)
			}
		}
	})
}

// A claim is accepted with its own signature, if it is valid and that has not expired, and with no
// other. The same for its text.
func FuzzKeyringVerify(f *testing.F) {
	ring := keyring(f, key("k2"), key("k1"))
	holder := uuid.MustParse("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
	f.Add("seat/A12", int64(34), holder[:], int64(4102444800), ring.Sign(held("seat/A12", 34), time.Unix(4102444800, 0)))
	f.Add("seat/A12", int64(34), holder[:], int64(4102444800), "k1:4102444800:"+strings.Repeat("A", 43))
	f.Add("seat/A1", int64(234), []byte{}, int64(math.MaxInt64), "::")
	f.Add("", int64(-1), []byte{1}, int64(math.MinInt64), "")
	f.Add("a\x00\x00\x00\x0212", int64(0), holder[:], int64(0), "k1:0:\n")
	f.Fuzz(func(t *testing.T, resource string, token int64, holder []byte, expires int64, sig string) {
		c := fence.Claim{Resource: resource, Token: fence.Token(token)}
		copy(c.Holder[:], holder)
		at := time.Unix(expires, 0)
		own := ring.Sign(c, at)
		good := c.Validate() == nil && expires > time.Now().Unix()

		err := ring.Verify(c, own)
		if good != (err == nil) || err != nil && !errors.Is(err, fence.ErrForged) {
			t.Fatalf("Verify(%v, %q) = %v", c, own, err)
		}
		got, err := ring.Decode(ring.Encode(c, at))
		if good != (err == nil) || good && got != c || !good && got != (fence.Claim{}) {
			t.Fatalf("Decode(Encode(%v, %d)) = %v, %v", c, expires, got, err)
		}
		if err := ring.Verify(c, sig); err == nil {
			_, rest, _ := strings.Cut(sig, ":")
			expiry, _, _ := strings.Cut(rest, ":")
			seconds, _ := strconv.ParseInt(expiry, 10, 64)
			if again := ring.Sign(c, time.Unix(seconds, 0)); again != sig {
				t.Fatalf("%q was accepted, and is signed as %q", sig, again)
			}
		} else if !errors.Is(err, fence.ErrForged) {
			t.Fatalf("Verify(%v, %q) = %v", c, sig, err)
		}
	})
}
