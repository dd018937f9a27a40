package middleware

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
)

// The header fields of the wire contract, in the form in which net/http keys them.
const (
	headerToken     = "Fencing-Token"
	headerHolder    = "Fencing-Holder"
	headerResource  = "Fencing-Resource"
	headerSignature = "Fencing-Signature"
)

var fencingHeaders = [...]string{headerToken, headerHolder, headerResource, headerSignature}

// wire is what the fencing headers of one request say.
type wire struct {
	token    fence.Token
	holder   uuid.UUID
	resource string // decoded; "" if none was sent
}

// parseHeaders reads the fencing headers of a request. Without a Fencing-Token line the error wraps
// fence.ErrNoClaim, whatever else was sent; with anything but the contract's one form of each header
// it is an invalidRequest.
func parseHeaders(h http.Header) (wire, error) {
	if len(h[headerToken]) == 0 {
		return wire{}, fmt.Errorf("%w: no %s header", fence.ErrNoClaim, headerToken)
	}
	for _, name := range fencingHeaders {
		if n := len(h[name]); n > 1 {
			return wire{}, invalid("%s: sent %d times, want one line", name, n)
		}
	}

	token, err := fence.ParseToken(h[headerToken][0])
	if err != nil {
		return wire{}, &invalidRequest{err}
	}
	read := wire{token: token}
	if lines := h[headerHolder]; len(lines) == 1 {
		if read.holder, err = parseHolder(lines[0]); err != nil {
			return wire{}, err
		}
	}
	if lines := h[headerResource]; len(lines) == 1 {
		read.resource, err = url.PathUnescape(lines[0])
		if err != nil || read.resource == "" {
			return wire{}, invalid("%s: %.40q: want a percent-encoded resource", headerResource, lines[0])
		}
	}
	return read, nil
}

// parseHolder takes the 36 characters that uuid.UUID.String writes. The zero UUID is refused: it
// would be a second way to say that there is no holder. The errors don't show the value, which may be
// the key to a live lease.
func parseHolder(s string) (uuid.UUID, error) {
	holder, err := uuid.Parse(s)
	canonical := err == nil && len(s) == 36
	for i := range len(s) {
		canonical = canonical && (s[i] < 'A' || s[i] > 'F')
	}
	switch {
	case !canonical:
		return uuid.Nil, invalid("%s: want a UUID of 36 characters in lower case", headerHolder)
	case holder == uuid.Nil:
		return uuid.Nil, invalid("%s: is the zero UUID; leave the header out if there is no holder", headerHolder)
	}
	return holder, nil
}

// claim ties what was read to the resource that the route derived.
func (read wire) claim(resource string) (fence.Claim, error) {
	c := fence.Claim{Resource: resource, Token: read.token, Holder: read.holder}
	if err := c.Validate(); err != nil {
		return fence.Claim{}, &invalidRequest{err}
	}
	if read.resource != "" && read.resource != resource {
		return fence.Claim{}, invalid("%s: names another resource than the route, which is for %q", headerResource, resource)
	}
	return c, nil
}

// setHeaders writes a valid claim the way parseHeaders reads it.
func setHeaders(h http.Header, c fence.Claim) {
	h[headerToken] = []string{c.Token.String()}
	if c.Holder != uuid.Nil {
		h[headerHolder] = []string{c.Holder.String()}
	}
	h[headerResource] = []string{url.PathEscape(c.Resource)}
}

// invalidRequest is a fault of the request that its sender may be told in these words.
type invalidRequest struct{ err error }

func invalid(format string, args ...any) error {
	return &invalidRequest{fmt.Errorf("%w: "+format, append([]any{fence.ErrInvalid}, args...)...)}
}

func (e *invalidRequest) Error() string { return e.err.Error() }
func (e *invalidRequest) Unwrap() error { return e.err }
