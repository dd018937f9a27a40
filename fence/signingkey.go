package fence

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The latest expiry: 9999-12-31T23:59:59Z, in 12 digits.
const (
	maxExpires       = 253402300799
	maxExpiresDigits = 12
)

func wholeSeconds(expires time.Time) int64 { return min(max(expires.Unix(), 0), maxExpires) }

// signingKey computes the signatures of one key. The secret is nowhere but in the pool's closure, out
// of the reach of printing.
type signingKey struct {
	id   string
	macs sync.Pool // of *mac
}

type mac struct {
	hash         hash.Hash
	message, sum []byte
}

func newSigningKey(key Key) *signingKey {
	secret := slices.Clone(key.Secret)
	return &signingKey{id: key.ID, macs: sync.Pool{New: func() any { return &mac{hash: hmac.New(sha256.New, secret)} }}}
}

const macLength = 43 // base64 of 32 bytes

// appendMAC appends the HMAC over the fields, each behind its length, in base64url. The domain keeps
// apart what is signed for different uses; the key's id is signed so that it can't be exchanged for
// that of another key with the same secret.
func (key *signingKey) appendMAC(dst []byte, domain string, c Claim, expires int64) []byte {
	m := key.macs.Get().(*mac)
	defer key.macs.Put(m)
	var number [20]byte
	msg := appendField(m.message[:0], domain)
	msg = appendField(msg, key.id)
	msg = appendField(msg, strconv.AppendInt(number[:0], expires, 10))
	msg = appendField(msg, c.Resource)
	msg = appendField(msg, strconv.AppendInt(number[:0], int64(c.Token), 10))
	msg = appendField(msg, c.Holder[:])
	m.message = msg

	m.hash.Reset()
	m.hash.Write(msg) // a hash never fails
	m.sum = m.hash.Sum(m.sum[:0])
	return base64.RawURLEncoding.AppendEncode(dst, m.sum)
}

func appendField[T string | []byte](dst []byte, value T) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// check compares what came with what this key would have written, which leaves one spelling of
// everything, and then looks at the clock.
func (key *signingKey) check(came string, want []byte, expires int64) error {
	if subtle.ConstantTimeCompare([]byte(came), want) != 1 {
		return fmt.Errorf("%w: altered, or key %s had another secret when it signed", ErrForged, Key{ID: key.id}.name())
	}
	if now := time.Now().Unix(); now >= expires {
		return fmt.Errorf("%w: expired at %s, %d s ago", ErrForged, time.Unix(expires, 0).UTC().Format(time.RFC3339), now-expires)
	}
	return nil
}
