package fence

import (
	"fmt"
	"strconv"
	"time"
)

const (
	signatureDomain = "ringfence signature v1"
	maxSignature    = maxKeyID + 1 + maxExpiresDigits + 1 + macLength
)

// Sign returns a signature of the claim that [Keyring.Verify] accepts until expires, see [Keyring] for
// how that is rounded. It is what the header Fencing-Signature carries:
//
//	<key id>:<unix expiry>:<base64url HMAC>
//
// at most 121 bytes, the expiry in decimal seconds, the HMAC without padding. That HMAC-SHA256 is over
// six fields, each behind its length in bytes as a 32-bit big-endian number: "ringfence signature v1",
// the key id, the expiry as it is written, the resource, the token in decimal, the 16 bytes of the
// holder (all 0 if there is none).
//
// An invalid claim is signed as well; Verify refuses it all the same.
func (k *Keyring) Sign(c Claim, expires time.Time) (sig string) {
	key := k.signer()
	if key == nil {
		return ""
	}
	return string(key.appendSignature(make([]byte, 0, maxSignature), c, wholeSeconds(expires)))
}

// Verify returns nil if sig is what [Keyring.Sign] made for exactly this claim - resource, token and
// holder - with one of the keys, byte for byte, and has not expired. Otherwise, and for a claim that
// is not valid, the error wraps [ErrForged].
func (k *Keyring) Verify(c Claim, sig string) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrForged, err)
	}
	if len(sig) > maxSignature {
		return errMalformed
	}
	key, expires, _, err := k.open(sig, ":")
	if err != nil {
		return err
	}
	var want [maxSignature]byte
	return key.check(sig, key.appendSignature(want[:0], c, expires), expires)
}

func (key *signingKey) appendSignature(dst []byte, c Claim, expires int64) []byte {
	dst = append(dst, key.id...)
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, expires, 10)
	dst = append(dst, ':')
	return key.appendMAC(dst, signatureDomain, c, expires)
}
