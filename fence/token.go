package fence

import (
	"fmt"
	"strconv"
)

// Token is a fencing token: a number that rises per resource in the order of grants. Valid tokens
// are 1 to 9223372036854775807; 0 means none.
type Token int64

// ParseToken reads a token in its one written form: ASCII digits without sign, space or leading
// zero, 1 to 9223372036854775807. Anything else is an error that wraps [ErrInvalid].
func ParseToken(s string) (Token, error) {
	if s == "" || s[0] == '0' {
		return 0, badToken(s)
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, badToken(s)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, badToken(s)
	}
	return Token(n), nil
}

func badToken(s string) error {
	const most = 40
	if len(s) > most {
		s = s[:most] + "..."
	}
	return fmt.Errorf("%w: token %q: want decimal digits without sign or leading zero, 1 to 9223372036854775807", ErrInvalid, s)
}

// Valid reports whether t is above 0.
func (t Token) Valid() bool { return t > 0 }

// String returns t in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// MarshalText writes t in decimal, so that JSON shows it as a quoted string: a bare number above 2^53
// would be rounded by JavaScript. A negative t is an error that wraps [ErrInvalid].
func (t Token) MarshalText() ([]byte, error) {
	if t < 0 {
		return nil, badToken(t.String())
	}
	return strconv.AppendInt(nil, int64(t), 10), nil
}

// UnmarshalText reads what [Token.MarshalText] writes: "0", or what [ParseToken] takes. On an error
// t is unchanged.
func (t *Token) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*t = 0
		return nil
	}
	parsed, err := ParseToken(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}
