package fence

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	textDomain   = "ringfence text v1"
	payloadFixed = 8 + 16                                 // token and holder; the resource follows
	maxPayload   = ((payloadFixed+MaxResource)*8 + 5) / 6 // in base64 without padding
	maxText      = maxKeyID + 1 + maxExpiresDigits + 1 + maxPayload + 1 + macLength
)

// Encode returns the claim as a signed text that [Keyring.Decode] accepts until expires, see [Keyring]
// for how that is rounded. It consists of A-Z a-z 0-9 - _ and dots, which need no quoting in a cookie,
// a URL or JSON, and has at most 837 bytes:
//
//	<key id>.<unix expiry>.<base64url claim>.<base64url HMAC>
//
// The text is signed, NOT ENCRYPTED, and it is a secret: it carries the holder, the key to a live
// lease, and whoever has the text can take the lease over. Treat it like a session id: a cookie is
// HttpOnly, Secure and SameSite; never log it, and never put it into a URL that others get to see.
//
// An invalid claim is encoded as well; Decode refuses it all the same.
func (k *Keyring) Encode(c Claim, expires time.Time) (text string) {
	key := k.signer()
	if key == nil {
		return ""
	}
	return string(key.appendText(make([]byte, 0, maxText), c, wholeSeconds(expires)))
}

// Decode returns the claim in a text that [Keyring.Encode] made with one of the keys, byte for byte, if
// it has not expired. Otherwise the claim is zero and the error wraps [ErrForged]. A claim that it
// returns is valid.
func (k *Keyring) Decode(text string) (Claim, error) {
	if len(text) > maxText {
		return Claim{}, errMalformed
	}
	key, expires, rest, err := k.open(text, ".")
	if err != nil {
		return Claim{}, err
	}
	encoded, _, _ := strings.Cut(rest, ".")
	var buf [payloadFixed + MaxResource]byte
	payload, err := base64.RawURLEncoding.AppendDecode(buf[:0], []byte(encoded))
	if err != nil || len(payload) < payloadFixed {
		return Claim{}, errMalformed
	}
	c := Claim{
		Token:    Token(binary.BigEndian.Uint64(payload)),
		Holder:   uuid.UUID(payload[8:payloadFixed]),
		Resource: string(payload[payloadFixed:]),
	}
	var want [maxText]byte
	if err := key.check(text, key.appendText(want[:0], c, expires), expires); err != nil {
		return Claim{}, err
	}
	if err := c.Validate(); err != nil {
		return Claim{}, fmt.Errorf("%w: %w", ErrForged, err)
	}
	return c, nil
}

func (key *signingKey) appendText(dst []byte, c Claim, expires int64) []byte {
	dst = append(dst, key.id...)
	dst = append(dst, '.')
	dst = strconv.AppendInt(dst, expires, 10)
	dst = append(dst, '.')
	var buf [payloadFixed + MaxResource]byte
	payload := binary.BigEndian.AppendUint64(buf[:0], uint64(c.Token))
	payload = append(payload, c.Holder[:]...)
	payload = append(payload, c.Resource...)
	dst = base64.RawURLEncoding.AppendEncode(dst, payload)
	dst = append(dst, '.')
	return key.appendMAC(dst, textDomain, c, expires)
}
