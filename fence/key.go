package fence

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

const (
	minSecret = 32 // bytes: as long as what HMAC-SHA256 puts out (RFC 2104 §3)
	maxKeyID  = 64
)

// Key is a secret that signs claims, and the name under which signatures refer to it.
//
// A Key does not show its secret when it is printed: not by fmt, slog, JSON or YAML. It can only do
// so where its methods are called. They are not for a Key by value in an unexported field of a struct
// that is printed (keep the [Keyring] there instead), for a deep dump as debuggers and tests make it,
// and for %p, which vet reports.
type Key struct {
	// ID is sent along in clear: 1 to 64 of A-Z a-z 0-9 - _, compared byte by byte. It must never be
	// used again for another secret.
	ID string
	// Secret is at least 32 bytes from a random source (crypto/rand, openssl rand), not a password.
	// Whoever knows it can make a claim for any resource with any token.
	Secret []byte
}

// validate returns nil, or an error that wraps ErrInvalid.
func (key Key) validate() error {
	if key.ID == "" || len(key.ID) > maxKeyID {
		return fmt.Errorf("%w: id %s: is %d bytes, want 1 to %d", ErrInvalid, key.name(), len(key.ID), maxKeyID)
	}
	for i := range len(key.ID) {
		if !keyIDByte(key.ID[i]) {
			return fmt.Errorf("%w: id %s: has %q at byte %d, want only A-Z a-z 0-9 - _", ErrInvalid, key.name(), key.ID[i:i+1], i)
		}
	}
	if len(key.Secret) < minSecret {
		return fmt.Errorf("%w: id %s: secret is %d bytes, want %d or more", ErrInvalid, key.name(), len(key.Secret), minSecret)
	}
	return nil
}

func keyIDByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_'
}

// name quotes the ID, and only the beginning of one that is long enough to be a secret which landed
// in the wrong field.
func (key Key) name() string {
	if len(key.ID) < minSecret {
		return strconv.Quote(key.ID)
	}
	return strconv.Quote(key.ID[:8]) + "..."
}

// String shows the ID, of one of 32 bytes or more the beginning.
func (key Key) String() string { return "fence.Key(" + key.name() + ")" }

// Format writes String, whatever the verb and its flags.
func (key Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, key.String()) }

// LogValue is String.
func (key Key) LogValue() slog.Value { return slog.StringValue(key.String()) }

// MarshalText is String, so that a configuration that is dumped as JSON or YAML does not show the
// secret. There is no way back: it is no means to store a Key.
func (key Key) MarshalText() ([]byte, error) { return []byte(key.String()), nil }
