package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

// Resource derives the name of the protected resource from a request's route. It is called once per
// request of an unsafe method, before the handler, concurrently.
//
// A Resource of your own must keep two promises. The name comes from the route or from what the
// server knows, never from a header, query or body: else a client picks the resource its token is
// checked against. And all spellings of a path give one name: use decoded values, and refuse those
// that a later stage would decode again. An error of it that wraps a fence sentinel is answered as
// [WriteProblem] does; any other, or an empty name, as fence-misconfigured.
type Resource func(*http.Request) (string, error)

// errMisconfigured: the middleware is mounted where the resource can't be derived.
var errMisconfigured = errors.New("middleware: misconfigured")

// PathValue is the decoded value of the wildcard {name} of the route, as [http.Request.PathValue]
// gives it: net/http's ServeMux sets it, and routers that call SetPathValue.
//
// A value is one path segment. It is refused (400) if it contains a slash, if it is "." or "..", or
// if it contains a percent escape still - such as a router gives that hands out the undecoded path,
// and such as a later stage may decode to something else. So a multi-segment wildcard {name...} is
// not for PathValue. It panics if name is empty.
func PathValue(name string) Resource {
	if name == "" {
		panic("middleware: PathValue: empty name")
	}
	return func(r *http.Request) (string, error) {
		value := r.PathValue(name)
		switch {
		case value == "":
			return "", fmt.Errorf("%w: the route has no path value %q: wrap the handler of a route that has it, as in "+
				`mux.Handle("POST /things/{%s}", require(handler)), not the mux; with a router that does not set path values, write a middleware.Resource`,
				errMisconfigured, name, name)
		case strings.Contains(value, "/"):
			return "", invalid("path value %s: %.40q: has a slash, want one path segment", name, value)
		case value == "." || value == "..":
			return "", invalid("path value %s: %q: is a dot segment", name, value)
		case hasEscape(value):
			return "", invalid("path value %s: %.40q: has a percent escape after decoding", name, value)
		}
		return value, nil
	}
}

// Prefix puts a prefix before the name that res derives: Prefix("auction/", PathValue("id")). It
// panics if res is nil.
func Prefix(prefix string, res Resource) Resource {
	if res == nil {
		panic("middleware: Prefix: nil Resource")
	}
	return func(r *http.Request) (string, error) {
		name, err := res(r)
		if err != nil || name == "" {
			return "", err
		}
		return prefix + name, nil
	}
}

// Const is one resource for every request. It panics if name is not a valid resource, with an error
// that wraps [fence.ErrInvalid].
func Const(name string) Resource {
	if err := fence.ValidateResource(name); err != nil {
		panic(fmt.Errorf("middleware: Const: %w", err))
	}
	return func(*http.Request) (string, error) { return name, nil }
}

// hasEscape reports whether decoding s once more would change it.
func hasEscape(s string) bool {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == '%' && isHex(s[i+1]) && isHex(s[i+2]) {
			return true
		}
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
