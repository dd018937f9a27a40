package fence

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// MaxResource is the greatest length of a resource name, in bytes.
const MaxResource = 512

// Claim is the immutable value that travels with a write: whoever holds Resource under Token writes.
// Claims are comparable with ==.
//
// The holder is the key to a live lease: whoever knows it can release the lease. String, GoString and
// LogValue therefore show only its [Fingerprint]. Do not log the field itself.
type Claim struct {
	Resource string    // the protected thing, see [ValidateResource]
	Token    Token     // above 0
	Holder   uuid.UUID // made fresh for every acquisition; zero: unknown, which makes the claim write-once
}

// Validate returns nil, or an error that wraps [ErrInvalid] and names the field and its value.
// A zero Holder is valid.
func (c Claim) Validate() error {
	if err := ValidateResource(c.Resource); err != nil {
		return err
	}
	if !c.Token.Valid() {
		return fmt.Errorf("%w: token %d of resource %q: want 1 to 9223372036854775807", ErrInvalid, int64(c.Token), c.Resource)
	}
	return nil
}

// ValidateResource returns nil if name can name a resource: valid UTF-8, 1 to 512 bytes, no control
// characters. Names are compared byte by byte; nothing is normalised. Otherwise the error wraps
// [ErrInvalid] and shows the name.
func ValidateResource(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: resource %q: want 1 to %d bytes", ErrInvalid, name, MaxResource)
	case len(name) > MaxResource:
		return fmt.Errorf("%w: resource %q...: is %d bytes, want 1 to %d", ErrInvalid, name[:40], len(name), MaxResource)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: resource %q: want valid UTF-8", ErrInvalid, name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: resource %q: has the control character %U, want none", ErrInvalid, name, r)
		}
	}
	return nil
}

// String shows the resource, the token and the holder's fingerprint.
func (c Claim) String() string {
	return c.Resource + " token " + c.Token.String() + " holder " + Fingerprint(c.Holder)
}

// GoString is String, so that %#v does not show the holder either.
func (c Claim) GoString() string { return "fence.Claim(" + strconv.Quote(c.String()) + ")" }

// LogValue is the claim as a slog group, the holder as its fingerprint.
func (c Claim) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("resource", c.Resource),
		slog.Int64("token", int64(c.Token)),
		slog.String("holder", Fingerprint(c.Holder)),
	)
}

// Fingerprint names a holder in logs and screens without giving it away: 8 hex digits of its SHA-256,
// or "none" for the zero holder.
func Fingerprint(holder uuid.UUID) string {
	if holder == uuid.Nil {
		return "none"
	}
	sum := sha256.Sum256(holder[:])
	return hex.EncodeToString(sum[:4])
}
