package fence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Keyring signs claims with HMAC-SHA256, so that a client that carries one can't alter it or make one
// up. [Keyring.Sign] and [Keyring.Verify] are for a claim that travels in the open, as HTTP headers;
// [Keyring.Encode] and [Keyring.Decode] put claim and signature into one text, for a cookie or a
// queue. Neither is accepted in place of the other.
//
// A signature says that a holder of the secret vouched for the claim, and that its time is not over.
// Whether the lease still lives and the token is still the newest is for the lock and the guard to
// say. It can be shown any number of times until it expires.
//
// The expiry is a whole second: a fraction is cut off, so that nothing is accepted later than asked,
// and up to a second of the time given is lost. It is judged by the wall clock of the process that
// verifies, without leeway: accepted strictly before that second, refused from it on. A time before
// 1970 - the zero time.Time among them, which does not mean "never" - signs what is expired at once;
// one after the year 9999 is cut to its end.
//
// Every refusal wraps [ErrForged] and says which it is: malformed, unknown key, altered, expired, or
// an invalid claim (which wraps [ErrInvalid], too). None quotes the signature, the text or a secret.
//
// A Keyring is immutable and safe for concurrent use. A nil or zero one has no keys: it signs with
// the empty string, and refuses everything.
type Keyring struct {
	keys []*signingKey // the first signs
}

// NewKeyring returns a Keyring in which THE FIRST KEY SIGNS, and all verify: the newest key comes
// first, older ones behind it as long as what they signed is to be accepted.
//
// To change keys without refusing anybody, while servers are restarted one by one: first add the new
// key behind the present one, everywhere; then put it in front, everywhere; and when the last expiry
// signed by the old one has passed, take that out.
//
// The secrets are copied. No key, an invalid one, or the same ID twice is an error that wraps
// [ErrInvalid] and tells which argument it is, and what was expected.
func NewKeyring(keys ...Key) (*Keyring, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: keyring: has no keys, want one or more", ErrInvalid)
	}
	ring := new(Keyring)
	for i, key := range keys {
		if err := key.validate(); err != nil {
			return nil, fmt.Errorf("key %d of %d: %w", i+1, len(keys), err)
		}
		if ring.find(key.ID) != nil {
			return nil, fmt.Errorf("key %d of %d: %w: id %s: an earlier key has it, want another", i+1, len(keys), ErrInvalid, key.name())
		}
		ring.keys = append(ring.keys, newSigningKey(key))
	}
	return ring, nil
}

// String shows the IDs of the keys, the one that signs first.
func (k *Keyring) String() string {
	var names []string
	if k != nil {
		for _, key := range k.keys {
			names = append(names, Key{ID: key.id}.name())
		}
	}
	return "fence.Keyring(" + strings.Join(names, " ") + ")"
}

func (k *Keyring) signer() *signingKey {
	if k == nil || len(k.keys) == 0 {
		return nil
	}
	return k.keys[0]
}

func (k *Keyring) find(id string) *signingKey {
	if k == nil {
		return nil
	}
	if i := slices.IndexFunc(k.keys, func(key *signingKey) bool { return key.id == id }); i >= 0 {
		return k.keys[i]
	}
	return nil
}

// open reads the key and the expiry with which a signature or a text begins, and returns the rest.
// Nothing is proved by that, and another spelling of the expiry may pass: what opens must be compared
// with the one text that the key would have written.
func (k *Keyring) open(signed, separator string) (key *signingKey, expires int64, rest string, err error) {
	id, rest, _ := strings.Cut(signed, separator)
	expiry, rest, found := strings.Cut(rest, separator)
	expires, notNumber := strconv.ParseInt(expiry, 10, 64)
	if !found || notNumber != nil {
		return nil, 0, "", errMalformed
	}
	if key = k.find(id); key == nil {
		return nil, 0, "", fmt.Errorf("%w: signed with the unknown key %s", ErrForged, Key{ID: id}.name())
	}
	return key, expires, rest, nil
}

var errMalformed = fmt.Errorf("%w: malformed", ErrForged)
