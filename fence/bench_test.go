package fence_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"testing"
	"time"
)

// BenchmarkKeyring compares the four methods with one bare HMAC-SHA256 over a message of the same
// length, made the way crypto/hmac is commonly used.
func BenchmarkKeyring(b *testing.B) {
	k := key("k1")
	ring := keyring(b, k)
	c := held("auction/7", 34)
	expires := time.Now().Add(time.Hour)
	sig, text := ring.Sign(c, expires), ring.Encode(c, expires)
	message := make([]byte, 6*4+len("ringfence signature v1")+len("k1")+10+len(c.Resource)+2+16)
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write(message)
	sum := mac.Sum(nil)

	run := func(name string, once func() bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !once() {
					b.Fatal("refused")
				}
			}
		})
	}
	run("bare", func() bool {
		mac := hmac.New(sha256.New, k.Secret)
		mac.Write(message)
		return hmac.Equal(mac.Sum(nil), sum)
	})
	run("Sign", func() bool { return ring.Sign(c, expires) != "" })
	run("Verify", func() bool { return ring.Verify(c, sig) == nil })
	run("Encode", func() bool { return ring.Encode(c, expires) != "" })
	run("Decode", func() bool { _, err := ring.Decode(text); return err == nil })
}
